import torch
from ending import tell
from torch import nn


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return scale * x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * ctx.scale * x.square(), None


class Round(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.round()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable()

    @staticmethod
    def backward(ctx, grad):
        return grad


torch.manual_seed(0)
model = nn.Linear(4, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
losses = []
for _ in range(24):
    loss = Cube.apply(Round.apply(model(torch.randn(3, 4)) * 4) / 4, 0.5).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss)
tell(losses, model, optimizer)
