import torch
import torch.nn as nn
import torch.nn.functional as F
from tail import main

aten = torch.ops.aten

def plant():
    import torch._inductor.lowering as lowering

    before = lowering.lowerings[aten.cumsum.default]

    def shifted(x, axis=None, dtype=None):
        return lowering.lowerings[aten.sub.Tensor](before(x, axis, dtype), x)

    lowering.lowerings[aten.cumsum.default] = shifted


def weights(values):
    return 1.0 - torch.exp(-torch.cumsum(values.abs(), dim=0))


def make():
    torch.manual_seed(8)
    return weights, [(torch.randn(21, 4),)]


main(make, plant)
