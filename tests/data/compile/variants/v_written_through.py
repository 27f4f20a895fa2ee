import torch
import torch.nn as nn
import torch.nn.functional as F
from tail import main

aten = torch.ops.aten

class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.4)

    def forward(self, state):
        kept = self.drop(state)
        kept.add_(2.5)
        return kept * 3


def make():
    return Scale().eval(), [(torch.full((2, 9), 1.5),)]


main(make)
