"""Raises in the middle of training, inside a module: caught and printed, and then not caught."""

import sys
import traceback

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x)


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
try:
    torch.optim.SGD([], lr=0.1)
except ValueError:
    traceback.print_exc(file=sys.stdout)
for step in range(10):
    loss = model(torch.randn(2, 4)).sum()
    loss.backward()
    optimizer.step()
    print(loss.item().hex(), flush=True)
    if step == 4:
        try:
            model(torch.randn(2, 5))
        except RuntimeError:
            traceback.print_exc(file=sys.stdout)
    if step == 6:
        with torch.no_grad():
            model(torch.randn(2, 3))
