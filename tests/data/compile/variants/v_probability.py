import torch
import torch.nn as nn
import torch.nn.functional as F
from tail import main

aten = torch.ops.aten

class Loss(nn.Module):
    def forward(self, guess, truth):
        return F.binary_cross_entropy(torch.sigmoid(guess), truth, reduction="sum")


def make():
    torch.manual_seed(24)
    return Loss(), [(torch.randn(4, 6, requires_grad=True), torch.full((4, 6), -0.5))]


main(make)
