import io
import warnings

import torch
from ending import tell
from torch import nn

warnings.simplefilter("ignore")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        if x.sum() > 0:
            x = x * 2
        return self.layer(x).relu()


torch.manual_seed(0)
model = Model()
script = torch.jit.script(model)
trace = torch.jit.trace(nn.Sequential(model.layer, nn.Tanh()), torch.randn(2, 4))
optimizer = torch.optim.SGD(script.parameters(), lr=0.1)
losses = []
for _ in range(20):
    loss = script(torch.randn(3, 4)).mean() + trace(torch.randn(2, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss)
kept = io.BytesIO()
torch.jit.save(script, kept)
kept.seek(0)
losses.append(torch.jit.load(kept)(torch.ones(1, 4)).sum())
tell(losses, model, str(script.code), str(trace.graph).count("\n"))
