import torch
import torch.nn as nn
import torch.nn.functional as F
from tail import main

aten = torch.ops.aten

def edit(graph, node):
    if node.target in (aten.sum.dim_IntList, aten.sum.default):
        with graph.inserting_before(node):
            low = graph.call_function(torch.ops.prims.convert_element_type.default, (node.args[0], torch.bfloat16))
        node.args = (low, *node.args[1:])
        with graph.inserting_after(node):
            back = graph.call_function(torch.ops.prims.convert_element_type.default, (node, torch.float32))
        for user in list(node.users):
            if user is not back:
                user.replace_input_with(node, back)


def plant():
    def change(graph):
        for node in list(graph.nodes):
            if node.op == "call_function":
                edit(graph, node)
        graph.lint()

    torch._inductor.config.post_grad_custom_pre_pass = change


def loss(guess, truth):
    return ((guess - truth) ** 2).sum() / guess.numel()


def make():
    torch.manual_seed(15)
    return loss, [(torch.randn(30, 11), torch.randn(30, 11))]


main(make, plant)
