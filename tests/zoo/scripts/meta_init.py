"""A model made on the meta device and filled later; fake tensors through it between steps."""

import torch
from ending import tell
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

torch.manual_seed(0)
with torch.device("meta"):
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
model.to_empty(device="cpu")
for param in model.parameters():
    nn.init.normal_(param, std=0.1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for _ in range(14):
    with FakeTensorMode(allow_non_fake_inputs=True):
        shape = model(torch.empty(3, 4)).shape
    optimizer.zero_grad()
    loss = model(torch.randn(3, 4)).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss)
tell(losses, model, optimizer, shape)
