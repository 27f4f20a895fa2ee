"""Failing backward passes: modified in place, a second time, not a scalar; the last one kills."""

import sys
import traceback

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def bad(kind):
    out = model(torch.randn(2, 3)).exp()
    loss = out.square().sum()
    if kind == "in place":
        out.mul_(2)
    if kind == "twice":
        loss.backward()
    if kind == "vector":
        loss = out
    if kind == "detached":
        loss = loss.detach()
    loss.backward()


for kind in ("in place", "twice", "vector", "detached"):
    try:
        bad(kind)
    except RuntimeError:
        traceback.print_exc(file=sys.stdout)
for _ in range(6):
    loss = model(torch.randn(2, 3)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item().hex(), flush=True)
bad("in place")
