"""Compiled code must run during and after examined steps, and be compiled as often as without."""

import torch
from ending import tell
from torch import nn
from torch._dynamo.backends.common import aot_autograd

compiles, runs = [], []


def counting(kind):
    def compiler(graph, inputs):
        compiles.append((kind, len(graph.graph.nodes)))

        def run(*args):
            runs.append(kind)
            return graph(*args)

        return run

    return compiler


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 4))
backend = aot_autograd(fw_compiler=counting("forward"), bw_compiler=counting("backward"))
fast = torch.compile(model, backend=backend)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
losses = []
for step in range(50):
    loss = fast(torch.randn(4, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss)
    assert runs.count("forward") == runs.count("backward") == step + 1, (step, runs)
with torch.no_grad():
    losses.append(fast(torch.randn(4, 8)).sum())
tell(losses, model, optimizer, compiles, len(runs))
