"""Fake and meta tensors, deferred initialisation, and what they say of shapes."""

import torch
from ending import tell
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

torch.manual_seed(0)
told = []
with FakeTensorMode() as mode:
    fake = nn.Linear(1000, 1000)
    out = fake(torch.randn(8, 1000))
    told += [type(out).__name__, tuple(out.shape), out.device]
    out.sum().backward()
    told.append(tuple(fake.weight.grad.shape))
with torch.device("meta"):
    ghost = nn.Sequential(nn.Linear(10, 10), nn.Linear(10, 2))
told.append(ghost(torch.empty(3, 10, device="meta")).shape)
real = ghost.to_empty(device="cpu")
optimizer = torch.optim.SGD(real.parameters(), lr=0.1)
for p in real.parameters():
    nn.init.normal_(p)
losses = []
for _ in range(12):
    loss = real(torch.randn(4, 10)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss)
    with mode:
        told.append(tuple(fake(mode.from_tensor(torch.ones(2, 1000))).shape))
tell(losses, real, *told)
