import torch
import torch.nn as nn
import torch.nn.functional as F
from tail import main

aten = torch.ops.aten

def edit(graph, node):
    if node.target is aten.mul.Tensor and len(node.args) == 2 and node.args[0] is node.args[1]:
        node.replace_all_uses_with(node.args[0])


def plant():
    def change(graph):
        for node in list(graph.nodes):
            if node.op == "call_function":
                edit(graph, node)
        graph.lint()

    torch._inductor.config.post_grad_custom_pre_pass = change


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(16)
        self.a, self.b = nn.Linear(11, 15), nn.Linear(15, 4)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))


def make():
    torch.manual_seed(17)
    return Gate(), [(torch.randn(18, 11, requires_grad=True),)]


main(make, plant)
