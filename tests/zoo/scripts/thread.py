"""Trained in a thread, evaluated in another, while the main thread waits."""

import threading

import torch
from ending import tell
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
losses = []


def train(steps):
    for _ in range(steps):
        loss = model(torch.randn(4, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


def evaluate():
    with torch.no_grad():
        losses.append(model(torch.ones(2, 4)).sum().item())


for work, args in ((train, (15,)), (evaluate, ()), (train, (10,))):
    thread = threading.Thread(target=work, args=args)
    thread.start()
    thread.join()
train(5)
tell(losses, model)
