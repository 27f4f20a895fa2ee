import torch
import torch.nn as nn
import torch.nn.functional as F
from tail import main

aten = torch.ops.aten

def edit(graph, node):
    if node.target is aten.var_mean.correction:
        node.kwargs = {**node.kwargs, "correction": 1}


def plant():
    def change(graph):
        for node in list(graph.nodes):
            if node.op == "call_function":
                edit(graph, node)
        graph.lint()

    torch._inductor.config.post_grad_custom_pre_pass = change


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(18)
        self.enter = nn.Linear(6, 20)
        self.level = nn.LayerNorm(20)
        self.leave = nn.Linear(20, 3)

    def forward(self, x):
        return self.leave(F.relu(self.level(self.enter(x))))


def make():
    torch.manual_seed(19)
    return Encoder(), [(torch.randn(5, 6),)]


main(make, plant)
