"""A gradient step inside the loss (MAML), higher derivatives, a Hessian-vector product."""

import torch
from ending import tell

torch.manual_seed(0)
weight = torch.nn.Parameter(torch.randn(3))
optimizer = torch.optim.Adam([weight], lr=0.05)
losses = []
for _ in range(20):
    inner = (weight * torch.randn(3)).sum() ** 2
    (slope,) = torch.autograd.grad(inner, weight, create_graph=True)
    loss = (weight - 0.1 * slope - 1).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss)
x = torch.randn(3, dtype=torch.float64, requires_grad=True)
checked = torch.autograd.gradcheck(lambda v: (v**2).sum(), (x,))
product = torch.autograd.functional.hvp(lambda v: (v**3).sum(), x, torch.ones_like(x))[1]
tell(losses, weight, optimizer, checked, product)
