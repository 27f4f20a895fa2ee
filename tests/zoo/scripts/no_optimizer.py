"""Training by hand: no torch optimizer, forward-mode and no_grad updates."""

import torch
from ending import tell
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ELU(), nn.Linear(8, 1))
losses = []
for _ in range(24):
    loss = model(torch.randn(4, 4)).square().mean()
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
    losses.append(loss)
tell(losses, model)
