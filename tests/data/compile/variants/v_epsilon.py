import torch
import torch.nn as nn
import torch.nn.functional as F
from tail import main

aten = torch.ops.aten

def edit(graph, node):
    if node.target is aten.add.Tensor and isinstance(node.args[1], float) and 0 < node.args[1] < 1e-3:
        node.args = (node.args[0], node.args[1] * 300)


def plant():
    def change(graph):
        for node in list(graph.nodes):
            if node.op == "call_function":
                edit(graph, node)
        graph.lint()

    torch._inductor.config.post_grad_custom_pre_pass = change


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.linspace(0.5, 1.5, 12))

    def forward(self, hidden):
        return hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + 1e-4) * self.gain


def make():
    torch.manual_seed(4)
    return Scaled(), [(torch.randn(3, 7, 12),)]


main(make, plant)
