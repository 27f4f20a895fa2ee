import torch
import torch.nn as nn
import torch.nn.functional as F
from tail import main

aten = torch.ops.aten

class Box:
    pass


def merge(values, left, right):
    if left is right:
        values = values * 10
    left.seen, right.seen = 4, 9
    return values + left.seen


def make():
    one = Box()
    return merge, [(torch.zeros(6), Box(), Box()), (torch.zeros(6), one, one)]


main(make)
