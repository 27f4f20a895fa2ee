import torch
import torch.nn as nn
import torch.nn.functional as F
from tail import main

aten = torch.ops.aten

class Straight(torch.autograd.Function):
    @staticmethod
    def forward(values):
        return torch.sign(values)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, sent):
        (values,) = ctx.saved_tensors
        return sent * (values.abs() < 0.7)


def slopes(values):
    return torch.func.grad(lambda v: (Straight.apply(v) * 2).sum())(values)


def make():
    return slopes, [(torch.linspace(-1.2, 1.2, 14),)]


main(make)
