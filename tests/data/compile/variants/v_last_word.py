import torch
import torch.nn as nn
import torch.nn.functional as F
from tail import main

aten = torch.ops.aten

def edit(graph, node):
    if node.target is aten.embedding.default:
        with graph.inserting_before(node):
            short = graph.call_function(aten.clamp_max.default, (node.args[1], node.args[0].meta["val"].shape[0] - 2))
        node.args = (node.args[0], short, *node.args[2:])


def plant():
    def change(graph):
        for node in list(graph.nodes):
            if node.op == "call_function":
                edit(graph, node)
        graph.lint()

    torch._inductor.config.post_grad_custom_pre_pass = change


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(6)
        self.table = nn.Embedding(17, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, words):
        return self.head(self.table(words).mean(1))


def make():
    return Bag(), [(torch.tensor([[16, 1, 2, 3], [4, 5, 6, 7], [16, 16, 0, 9]]),)]


main(make, plant)
