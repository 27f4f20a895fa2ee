"""Two ranks over gloo, started by torch.multiprocessing.spawn."""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from ending import tell
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def work(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/store", world_size=2, rank=rank)
    torch.manual_seed(rank)
    model = DistributedDataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(8):
        loss = model(torch.randn(4, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    for turn in range(2):
        dist.barrier()
        if turn == rank:
            tell(losses, model)
            sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, (folder,), nprocs=2)
    print("spawned", os.environ.get("RANK"))
