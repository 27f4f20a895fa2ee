import atexit
import sys

import torch
from torch import nn

atexit.register(print, "at exit")
torch.manual_seed(0)
model = nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    loss = model(torch.randn(2, 3)).sum()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
sys.exit(7)
