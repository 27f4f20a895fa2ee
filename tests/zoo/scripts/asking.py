"""Ops that take another path when a dispatch mode is on, or another dtype."""

import torch
from ending import tell
from torch import nn


class Plain(torch.Tensor):
    pass


torch.manual_seed(0)
made = [Plain(2, 3).shape, Plain([1.0, 2.0]), Plain(torch.ones(2)), Plain().shape]
model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
losses = []
told = []
for step in range(24):
    x = torch.randn(4, 6)
    y = model(x)
    loss = y.prod(dim=1).square().mean() + (y.T @ y + torch.eye(6)).slogdet()[1] * 0.1
    if step % 3 == 0:
        # the backward of a general eigenproblem
        loss = loss + torch.linalg.eig(y.T @ y / 4 + torch.randn(6, 6))[0].abs().sum() * 0.01
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        weight = model[0].weight
        told.append(torch.linalg.svdvals(weight))
        told.append(torch.linalg.cond(weight))
        told.append(torch.linalg.matrix_norm(weight, "nuc"))
        told.append(torch.randn(1, 33, 17) @ torch.randn(5, 17, 29))
        with torch.autocast("cpu", torch.bfloat16):
            told.append(torch.linalg.pinv(torch.randn(5, 5)))
    with torch.inference_mode():
        told.append(torch.fft.hfftn(torch.randn(4, 6, dtype=torch.complex64)))
    (grad,) = torch.autograd.grad(model(x).prod(), model[0].weight)
    told.append(grad)
    losses.append(loss.detach())
tell(losses, model, *told, made)
