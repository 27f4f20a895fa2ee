import torch
import torch.nn as nn
import torch.nn.functional as F
from tail import main

aten = torch.ops.aten

def winners(scores):
    scaled = scores / 5.3
    return (scaled >= scaled.amax(1, keepdim=True)).sum(1)


def make():
    torch.manual_seed(25)
    return winners, [(torch.randn(20, 48).bfloat16(),)]


main(make)
