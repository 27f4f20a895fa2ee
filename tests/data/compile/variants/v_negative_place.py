import torch
import torch.nn as nn
import torch.nn.functional as F
from tail import main

aten = torch.ops.aten

def collect(bins, places, amounts):
    return torch.index_add(bins, 1, places, amounts).cumsum(1)


def make():
    return collect, [(torch.zeros(3, 7), torch.tensor([0, 3, -1]), torch.ones(3, 3))]


main(make)
