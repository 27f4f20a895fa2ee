import torch
import torch.nn as nn
import torch.nn.functional as F
from tail import main

aten = torch.ops.aten

def plant():
    import torch._inductor.lowering as lowering

    before = lowering.lowerings[aten.sum.dim_IntList]

    def short(x, dim=None, keepdim=False, *, dtype=None):
        if isinstance(dim, (list, tuple)) and len(dim) == 1 and len(x.get_size()) > 1:
            x = lowering.lowerings[aten.slice.Tensor](x, dim[0], 0, int(x.get_size()[dim[0]]) - 1, 1)
        return before(x, dim, keepdim, dtype=dtype)

    lowering.lowerings[aten.sum.dim_IntList] = short


def energy(field):
    return torch.exp(-field.square()).sum(dim=1)


def make():
    torch.manual_seed(14)
    return energy, [(torch.randn(4, 77, 3),)]


main(make, plant)
