"""No module at all: gradient descent on bare tensors, with a hand-written loop of updates."""

import torch
from ending import tell

torch.manual_seed(0)
w = torch.zeros(4, requires_grad=True)
optimizer = torch.optim.Rprop([w], lr=0.01)
losses = []
for _ in range(30):
    x = torch.randn(8, 4)
    loss = (x @ w - x.sum(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss)
v = torch.zeros(4, requires_grad=True)
for _ in range(10):
    (g,) = torch.autograd.grad((v - 1).square().sum(), v)
    v = (v - 0.1 * g).detach().requires_grad_()
tell(losses, w, v)
