import torch
from ending import tell
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
fast = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for _ in range(12):
    loss = fast(torch.randn(4, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss)
counters = torch._dynamo.utils.counters
tell(losses, model, dict(counters["frames"]), dict(counters["stats"]))
