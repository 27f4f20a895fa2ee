"""Autograd functions with arguments and results that are no tensors."""

import torch
from ending import tell
from torch import nn


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mode, options, call=None, *rest):
        ctx.options = options
        positive = x > 0
        ctx.mark_non_differentiable(positive)
        ctx.set_materialize_grads(False)
        return x * options["by"], positive, mode, None

    @staticmethod
    def backward(ctx, grad, *rest):
        return grad * ctx.options["by"], None, None, None, None


class Power(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, n):
        return x**n

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.n = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.n * x ** (ctx.n - 1), None


torch.manual_seed(0)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []
for _ in range(16):
    optimizer.zero_grad()
    out, _, said, nothing = Scale.apply(model(torch.randn(3, 4)), "text", {"by": 2.0}, None, 7)
    loss = Power.apply(out, 3).mean()
    loss.backward()
    optimizer.step()
    losses.append(loss)
each = torch.func.vmap(lambda v: Power.apply(v, 2))(torch.arange(3.0))
tell(losses, model, optimizer, said, nothing, each)
