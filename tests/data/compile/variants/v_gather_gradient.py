import torch
import torch.nn as nn
import torch.nn.functional as F
from tail import main

aten = torch.ops.aten

def edit(graph, node):
    if node.target in (aten.index_put.default, aten.index_put_.default) and len(node.args) > 3 and node.args[3]:
        node.args = (*node.args[:3], False)


def plant():
    def change(graph):
        for node in list(graph.nodes):
            if node.op == "call_function":
                edit(graph, node)
        graph.lint()

    torch._inductor.config.post_grad_custom_pre_pass = change


def pick(table, places):
    return torch.sin(table[places]).sum(-1)


def make():
    torch.manual_seed(9)
    return pick, [(torch.randn(9, 5, requires_grad=True), torch.tensor([8, 2, 2, 2, 0, 8]))]


main(make, plant)
