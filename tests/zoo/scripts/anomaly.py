"""Anomaly mode: its extra traceback goes to stderr as a warning, its error names the op."""

import sys
import traceback
import warnings

import torch
from ending import tell
from torch import nn

warnings.simplefilter("always")
# of the stack at the forward call only the end: below the script lie the frames of what runs it
warnings.showwarning = lambda message, *rest, **more: print(
    "warning:", str(message).partition(":")[0], str(message).partition("anomaly.py")[2]
)
torch.manual_seed(0)
model = nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for step in range(16):
    with torch.autograd.set_detect_anomaly(step % 2 == 0):
        out = model(torch.randn(2, 3))
        if step == 8:
            out = (out * 0).sqrt() * 0
        optimizer.zero_grad()
        try:
            out.sum().backward()
        except RuntimeError:
            traceback.print_exc(file=sys.stdout)
            continue
        optimizer.step()
    losses.append(out.sum())
tell(losses, model)
