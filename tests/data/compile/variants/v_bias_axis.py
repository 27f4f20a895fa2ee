import torch
import torch.nn as nn
import torch.nn.functional as F
from tail import main

aten = torch.ops.aten

def edit(graph, node):
    if node.target is aten.add.Tensor and all(isinstance(a, torch.fx.Node) for a in node.args[:2]):
        a, b = (arg.meta.get("val") for arg in node.args[:2])
        if a.dim() == 2 and b.dim() == 1 and a.shape[0] == a.shape[1]:
            with graph.inserting_before(node):
                turned = graph.call_function(aten.unsqueeze.default, (node.args[1], 1))
            node.args = (node.args[0], turned)


def plant():
    def change(graph):
        for node in list(graph.nodes):
            if node.op == "call_function":
                edit(graph, node)
        graph.lint()

    torch._inductor.config.post_grad_custom_pre_pass = change


class Shift(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(12)
        self.offset = nn.Parameter(torch.randn(32))

    def forward(self, image):
        return F.gelu(image + self.offset)


def make():
    torch.manual_seed(13)
    return Shift(), [(torch.randn(32, 32),)]


main(make, plant)
