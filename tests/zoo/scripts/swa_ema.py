"""Averaged copies of the weights: SWA with its schedule, an EMA, batch statistics made anew."""

import torch
from ending import tell
from torch import nn
from torch.optim import swa_utils

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
averaged = swa_utils.AveragedModel(model)
smooth = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
schedule = swa_utils.SWALR(optimizer, swa_lr=0.01)
batches = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(10)]
losses = []
for _ in range(3):
    for x, y in batches:
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        smooth.update_parameters(model)
        losses.append(loss)
    averaged.update_parameters(model)
    schedule.step()
swa_utils.update_bn([x for x, _ in batches], averaged)
tell(losses, model, averaged, smooth, optimizer)
