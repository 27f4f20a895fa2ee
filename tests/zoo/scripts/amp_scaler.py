"""Autocast and a GradScaler whose first and some later updates are skipped."""

import torch
from ending import tell
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=4)
losses = []
for step in range(40):
    x, y = torch.randn(8, 16), torch.randint(0, 4, (8,))
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x)
        with torch.autocast("cpu", enabled=False):
            loss = nn.functional.cross_entropy(out.float(), y)
    if step in (0, 1, 17, 18):
        loss = loss * float("inf")
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    losses += [loss, scaler.get_scale()]
tell(losses, model)
