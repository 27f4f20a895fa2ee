import torch
import torch.nn as nn
import torch.nn.functional as F
from tail import main

aten = torch.ops.aten

def plant():
    from torch._inductor.codegen.cpp import CppVecOverrides

    CppVecOverrides.maximum = staticmethod(lambda a, b: f"at::vec::maximum({a}, {a})")


def clip(a, floor):
    return torch.maximum(a * 0.5, floor).sqrt()


def make():
    torch.manual_seed(10)
    return clip, [(torch.randn(6, 48), torch.rand(6, 48) + 0.1)]


main(make, plant)
