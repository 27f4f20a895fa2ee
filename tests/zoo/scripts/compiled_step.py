"""The whole step is compiled: graph breaks at backward, the update traced; inference as well."""

import torch
from ending import tell
from torch import nn

graphs, runs = [], []


def backend(graph, inputs):
    graphs.append(len(graph.graph.nodes))

    def run(*args):
        runs.append(1)
        return graph.forward(*args)

    return run


torch.manual_seed(0)
model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


@torch.compile(backend=backend)
def train(x):
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


@torch.compile(backend=backend)
def update():
    optimizer.step()


losses = [train(torch.randn(4, 6)) for _ in range(12)]
for _ in range(8):
    loss = model(torch.randn(4, 6)).square().mean()
    loss.backward()
    update()
    optimizer.zero_grad()
    losses.append(loss)
model.compile(backend=backend)
with torch.inference_mode():
    losses += [model(torch.randn(2, 6)).sum() for _ in range(6)]
tell(losses, model, graphs, len(runs))
