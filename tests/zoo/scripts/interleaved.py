"""Loops that take turns: a generator, two coroutines, a pool of threads."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import torch
from ending import tell
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)


def training(model, optimizer):
    while True:
        optimizer.zero_grad()
        loss = model(torch.randn(4, 4)).square().mean()
        loss.backward()
        optimizer.step()
        yield loss.item()


async def turns(model, optimizer):
    for _ in range(10):
        optimizer.zero_grad()
        loss = model(torch.ones(4, 4)).square().mean()
        await asyncio.sleep(0)
        loss.backward()
        await asyncio.sleep(0)
        optimizer.step()
    return loss.item()


async def both(models):
    loops = [turns(m, torch.optim.SGD(m.parameters(), lr=0.1)) for m in models]
    return await asyncio.gather(*loops)


def job(seed):
    draw = torch.Generator().manual_seed(seed)
    weight = nn.Parameter(torch.ones(4))
    optimizer = torch.optim.Adam([weight], lr=0.1)
    for _ in range(10):
        optimizer.zero_grad()
        ((weight * torch.randn(4, generator=draw)).sum() ** 2).backward()
        optimizer.step()
    return weight.sum().item()


first = nn.Linear(4, 2)
loop = training(first, torch.optim.SGD(first.parameters(), lr=0.1))
losses = [next(loop) for _ in range(10)]
loop.close()
models = [nn.Linear(4, 2), nn.Linear(4, 2)]
losses += asyncio.run(both(models))
with ThreadPoolExecutor(2) as pool:
    losses += list(pool.map(job, range(4)))
tell(losses, first, *models)
