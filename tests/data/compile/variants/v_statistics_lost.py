import torch
import torch.nn as nn
import torch.nn.functional as F
from tail import main

aten = torch.ops.aten

def edit(graph, node):
    if node.target is aten.copy_.default and node.args[0].meta["val"].dim() == 1:
        node.replace_all_uses_with(node.args[0])
        graph.erase_node(node)


def plant():
    def change(graph):
        for node in list(graph.nodes):
            if node.op == "call_function":
                edit(graph, node)
        graph.lint()

    torch._inductor.config.post_grad_custom_pre_pass = change


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.lift = nn.Linear(5, 9)
        self.norm = nn.BatchNorm1d(9)

    def forward(self, points):
        return torch.tanh(self.norm(self.lift(points)))


def make():
    torch.manual_seed(2)
    return Block(), [(torch.randn(13, 5),)]


main(make, plant)
