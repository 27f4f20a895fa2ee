"""Two ranks over gloo, started by torchrun."""

import os

import torch
import torch.distributed as dist
from ending import tell
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for step in range(12):
    if step % 3 == 0:
        with model.no_sync():
            model(torch.randn(4, 4)).square().mean().backward()
    loss = model(torch.randn(4, 4)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss)
total = torch.tensor([float(sum(losses))])
dist.all_reduce(total)
for turn in range(2):
    dist.barrier()
    if turn == rank:
        tell([*losses, total], model)
        print(rank, os.environ["WORLD_SIZE"], flush=True)
dist.destroy_process_group()
