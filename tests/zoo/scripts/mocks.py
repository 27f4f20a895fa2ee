"""Mocks what a watch might use: time, os, json, threading, open, and functions of torch."""

import builtins
import json
import os
import threading
import time
from unittest import mock

import torch
from ending import tell
from torch import nn


def forbidden(*args, **kwargs):
    raise AssertionError("a mocked function was called")


torch.manual_seed(0)
model = nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
targets = [
    (time, "perf_counter"),
    (time, "time"),
    (time, "monotonic"),
    (os, "getpid"),
    (os, "write"),
    (os, "stat"),
    (json, "dumps"),
    (builtins, "open"),
    (threading, "get_ident"),
    (torch, "randn_like"),
    (torch.Tensor, "cpu"),
]
for step in range(30):
    with mock.patch.object(*targets[step % len(targets)], forbidden):
        loss = model(torch.ones(2, 3)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
with mock.patch.object(torch.Tensor, "backward", lambda self: losses.append(0.5)):
    loss.backward()
with mock.patch.object(nn.Linear, "forward", lambda self, x: x):
    losses.append(model(torch.ones(3)).sum())
with mock.patch.object(torch.optim.SGD, "step", lambda self: losses.append(0.25)):
    optimizer.step()
tell(losses, model)
