import torch
from ending import tell
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1)).double()
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5, line_search_fn="strong_wolfe")
x = torch.randn(32, 5, dtype=torch.double)
y = x.sin().sum(1, keepdim=True)
losses = []


def closure():
    optimizer.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    losses.append(loss.item())
    return loss


for _ in range(15):
    losses.append(optimizer.step(closure))  # noqa: PERF401
tell(losses, model)
