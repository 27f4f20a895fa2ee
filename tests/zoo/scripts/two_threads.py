"""Two models trained at the same time, each in its own thread."""

import threading

import torch
from ending import tell
from torch import nn

torch.manual_seed(0)
models = [nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)) for _ in range(2)]
data = torch.randn(40, 4, 4)
losses = [[], []]


def train(n):
    optimizer = torch.optim.SGD(models[n].parameters(), lr=0.05)
    for x in data:
        loss = models[n](x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses[n].append(loss.item())


threads = [threading.Thread(target=train, args=(n,)) for n in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
tell(losses[0] + losses[1], *models)
