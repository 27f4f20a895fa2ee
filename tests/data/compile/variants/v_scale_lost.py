import torch
import torch.nn as nn
import torch.nn.functional as F
from tail import main

aten = torch.ops.aten

def edit(graph, node):
    backward = any(n.op == "placeholder" and "tangents" in n.name for n in graph.nodes)
    if backward and node.target is aten.mul.Tensor and isinstance(node.args[1], float) and abs(node.args[1] - 0.11) < 1e-6:
        node.replace_all_uses_with(node.args[0])


def plant():
    def change(graph):
        for node in list(graph.nodes):
            if node.op == "call_function":
                edit(graph, node)
        graph.lint()

    torch._inductor.config.post_grad_custom_pre_pass = change


class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.query = nn.Linear(10, 6)

    def forward(self, rows, keys):
        return F.log_softmax(self.query(rows) @ keys.transpose(0, 1) * 0.11, dim=-1)


def make():
    torch.manual_seed(5)
    return Scores(), [(torch.randn(7, 10), torch.randn(9, 6, requires_grad=True))]


main(make, plant)
