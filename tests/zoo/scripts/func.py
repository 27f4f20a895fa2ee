import torch
from ending import tell
from torch import nn
from torch.func import functional_call, grad, grad_and_value, hessian, jacrev, jvp, vmap

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
weights = {k: v.detach() for k, v in model.named_parameters()}


def loss_of(weights, x, y):
    return (functional_call(model, weights, (x,)) - y).square().mean()


losses = []
per_sample = vmap(grad(loss_of), in_dims=(None, 0, 0), randomness="different")
for _ in range(10):
    x, y = torch.randn(6, 4), torch.randn(6, 1)
    grads, loss = grad_and_value(loss_of)(weights, x, y)
    each = per_sample(weights, x, y)
    weights = {k: w - 0.1 * grads[k] - 0.01 * each[k].mean(0) for k, w in weights.items()}
    losses.append(loss)
x = torch.randn(4)
losses += [hessian(lambda v: model(v).sum())(x).sum(), jacrev(model)(x).sum()]
losses += [jvp(model, (x,), (torch.ones(4),))[1].sum()]
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(8):
    loss = vmap(model)(torch.randn(5, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss)
tell(losses, model, *weights.values())
