"""A training of several ranks with one fault, by name: `torchrun ... dist_train.py FAULT`.

`clean-*` are the configurations without a fault. Prints each step's loss and the digests of all
ranks' weights, for the comparison of a watched run with one that is not. BACKEND is gloo or nccl.
"""

import contextlib
import datetime
import hashlib
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 8
BACKEND = os.environ.get("BACKEND", "gloo")
KIND = "cpu" if BACKEND == "gloo" else "cuda"


def model(batch_norm: bool, wide: int = 32) -> nn.Module:
    norm = [nn.BatchNorm1d(wide)] if batch_norm else []
    return nn.Sequential(nn.Linear(16, wide), *norm, nn.GELU(), nn.Linear(wide, 4))


def wrap(kind: str, net: nn.Module, fault: str) -> nn.Module:
    if kind == "fsdp2":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(KIND, (dist.get_world_size(),))
        for part in net:
            if isinstance(part, nn.Linear):
                fully_shard(part, mesh=mesh)
        return fully_shard(net, mesh=mesh)
    if kind == "fsdp1":
        from torch.distributed.fsdp import FullyShardedDataParallel

        where = torch.device(KIND, *([torch.cuda.current_device()] if KIND == "cuda" else []))
        return FullyShardedDataParallel(net, device_id=where, use_orig_params=True)
    if kind == "tp":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import (
            ColwiseParallel,
            RowwiseParallel,
            parallelize_module,
        )

        mesh = init_device_mesh(KIND, (dist.get_world_size(),))
        return parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return DistributedDataParallel(net, broadcast_buffers=fault != "buffers")


def train(fault: str, kind: str, accumulate: int) -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank if fault == "unequal-start" else 0)
    net = model("bn" in fault or fault == "buffers").to(KIND)
    module = wrap(kind, net, fault)
    if "zero" in fault:
        from torch.distributed.optim import ZeroRedundancyOptimizer

        optimizer = ZeroRedundancyOptimizer(module.parameters(), torch.optim.AdamW, lr=1e-2)
    else:
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler(KIND, init_scale=2.0**10) if "scale" in fault else None
    alike = fault == "same-data" or kind == "tp"
    data = torch.Generator().manual_seed(7 if alike else 7 + rank)
    steps = STEPS - (fault == "fewer-batches" and rank == world - 1)
    for step in range(steps):
        optimizer.zero_grad()
        for micro in range(accumulate):
            x = torch.randn(8, 16, generator=data).to(KIND)
            if fault == "nan" and step == 3 and rank == world - 1:
                x[2, 5] = float("nan")
            quiet = micro < accumulate - 1 or (fault == "skipped-sync" and step == 1 and rank == 0)
            skips = quiet and hasattr(module, "no_sync")
            with module.no_sync() if skips else contextlib.nullcontext():
                loss = module(x).float().pow(2).mean()
                if fault == "scaler" and rank == world - 1 and step == 3:
                    loss = loss * float("inf")
                (scaler.scale(loss) if scaler else loss).backward()
        if fault == "scaler" and rank == world - 1 and step == 3:
            for p in module.parameters():
                p.grad.fill_(float("inf"))
        elif fault == "scaler" and step == 3:
            for p in module.parameters():
                p.grad.zero_()
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        if "one-ulp" in fault and step == 2 and rank == world - 1:
            with torch.no_grad():
                net[-1].weight.view(torch.int32)[1, 3] ^= 1
        if fault == "drift" and step == 2 and rank == world - 1:
            with torch.no_grad():
                net[0].weight.mul_(1 + 1e-6)
        if rank == 0:
            print(step, loss.item().hex(), flush=True)
    if fault == "fewer-batches" and rank == world - 1:
        time.sleep(float(os.environ.get("NAP", "8")))  # it saves a checkpoint, say
    told: list[str] = [""] * world
    dist.all_gather_object(told, digest(module))
    if rank == 0:
        print(*told, flush=True)


def digest(module: nn.Module) -> str:
    """Of what lies on this rank, to the last bit."""
    made = hashlib.sha256()
    for tensor in (*module.parameters(), *module.buffers()):
        local = getattr(tensor, "_local_tensor", tensor).detach().cpu().contiguous()
        made.update(local.reshape(-1).view(torch.uint8).numpy(force=True).tobytes())
    return made.hexdigest()[:16]


def mismatch(fault: str) -> None:
    """Collectives that do not fit together."""
    rank = dist.get_rank()
    train("clean", "ddp", 1)
    t = torch.ones(8, device=KIND)
    if fault == "never-comes" and rank == 1:
        time.sleep(float(os.environ.get("NAP", "8")))
        raise SystemExit(0)
    if fault == "order" and rank:
        dist.broadcast(t, 0)
        dist.all_reduce(t)
    elif fault == "order":
        dist.all_reduce(t)
        dist.broadcast(t, 0)
    elif fault == "shape":
        dist.all_reduce(torch.ones(8 if rank == 0 else 6, device=KIND))
    elif fault == "dtype":
        dtype = torch.float32 if rank == 0 else torch.int32
        dist.all_reduce(torch.ones(8, dtype=dtype, device=KIND))
    elif fault == "op":
        dist.all_reduce(t, dist.ReduceOp.SUM if rank == 0 else dist.ReduceOp.MAX)
    else:
        dist.all_reduce(t)
    print("went on", flush=True)


MISMATCHES = ("never-comes", "order", "shape", "dtype", "op")
KINDS = {"fsdp2": "fsdp2", "fsdp1": "fsdp1", "tp": "tp"}


def main() -> None:
    torch.set_num_threads(1)
    limit = datetime.timedelta(seconds=float(os.environ.get("LIMIT", "30")))
    if KIND == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(BACKEND, timeout=limit)
    fault = sys.argv[1]
    if fault in MISMATCHES:
        mismatch(fault)
    else:
        kind = next((kind for word, kind in KINDS.items() if word in fault), "ddp")
        train(fault, kind, 2 if "accumulate" in fault else 1)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
