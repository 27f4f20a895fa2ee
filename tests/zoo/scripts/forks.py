"""Forks in the middle of training; the child trains on and ends through the end of the script."""

import os
import random
import sys

import torch
from ending import tell
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
child = None
for step in range(16):
    if step == 6:
        sys.stdout.flush()
        child = os.fork()
        random.seed(0)  # a child's generator is seeded anew
    loss = model(torch.randn(4, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss)
if child:
    print("child ended", os.waitpid(child, 0)[1], flush=True)
tell(losses, model, torch._C._len_torch_dispatch_stack() if not child else 0)
