import torch
from ending import tell
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
losses = []
for micro in range(80):
    x = torch.randn(4, 8)
    loss = model(x).square().mean() / 4
    loss.backward()
    losses.append(loss)
    if micro % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
tell(losses, model, optimizer)
