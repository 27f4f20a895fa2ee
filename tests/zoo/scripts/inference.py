"""No training: a model called under inference_mode and no_grad, and its own modules called too."""

import torch
from ending import tell
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.b(self.a(x).relu())


torch.manual_seed(0)
model = Model().eval()
outs = []
probe = model.a(torch.zeros(1, 4)).shape
with torch.inference_mode():
    for _ in range(40):
        outs.append(model(torch.randn(2, 4)).sum())  # noqa: PERF401
with torch.no_grad():
    for _ in range(30):
        outs.append(model(model(torch.randn(2, 4))).sum())  # noqa: PERF401
tell(outs, model, probe, type(model).__call__ is nn.Module.__call__)
