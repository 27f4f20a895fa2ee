"""Saves after each epoch, finds its checkpoint by itself; mixed precision, shuffled loader."""

import argparse
import os

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--leave", default="", help="what is not restored")
given = parser.parse_args()

torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randint(0, 3, (64,)))
loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
model = nn.Sequential(
    nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3)
)
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
begin = 0
if os.path.exists("last.pt"):
    kept = torch.load("last.pt", weights_only=False)
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "scaler": scaler}
    for name, part in parts.items():
        if given.leave != name:
            part.load_state_dict(kept[name])
    if given.leave != "random":
        torch.set_rng_state(kept["random"])
    if given.leave == "sampler":  # one batch of the next epoch is taken and thrown away
        state = torch.get_rng_state()
        next(iter(loader))
        torch.set_rng_state(state)
        loader = torch.utils.data.DataLoader(data, batch_size=16)
    begin = kept["epoch"] + 1

for epoch in range(begin, given.epochs):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    scheduler.step()
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "scaler": scaler.state_dict(),
            "random": torch.get_rng_state(),
            "epoch": epoch,
        },
        "last.pt",
    )
