"""EMA, deepcopy, pickle and torch.save of the model and the optimizer in the middle of a run."""

import copy
import io
import pickle

import torch
from ending import tell
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
losses = []
for step in range(24):
    loss = model(torch.randn(5, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.update_parameters(model)
    losses.append(loss)
    if step == 8:
        twin = copy.deepcopy((model, optimizer))
    if step == 12:
        losses.append(float(len(pickle.dumps(model)) + len(pickle.dumps(optimizer))))
        model2, optimizer2 = pickle.loads(pickle.dumps((model, optimizer)))
    if step == 16:
        file = io.BytesIO()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
        losses.append(float(len(file.getvalue())))
        file.seek(0)
        kept = torch.load(file)
        model.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
for _ in range(6):
    loss = twin[0](torch.randn(5, 4)).square().mean()
    twin[1].zero_grad()
    loss.backward()
    twin[1].step()
    losses.append(loss)
tell(losses, model, average, twin[0], model2, optimizer, optimizer2)
