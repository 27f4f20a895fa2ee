import torch
import torch.nn as nn
import torch.nn.functional as F
from tail import main

aten = torch.ops.aten

def trunk(image, kernel, bias):
    big = F.interpolate(image, scale_factor=(1.25, 1.5), mode="bilinear", align_corners=False)[:, :, 1:8, 1:9]
    made = F.conv2d(big, kernel, bias, padding=1)
    return made, F.max_pool2d(made, 3, 1, 1)


def make():
    torch.manual_seed(23)
    image = torch.randn(2, 3, 9, 9, requires_grad=True)
    kernel = torch.randn(5, 3, 3, 3, requires_grad=True)
    bias = torch.randn(5, requires_grad=True)
    with torch.no_grad():
        made, pooled = trunk(image, kernel, bias)
        chosen = made > pooled.mean((2, 3), keepdim=True)

    def mix(image, kernel, bias, chosen):
        made, pooled = trunk(image, kernel, bias)
        return torch.where(chosen, made, pooled)

    return mix, [(image, kernel, bias, chosen)]


main(make, ones=True)
