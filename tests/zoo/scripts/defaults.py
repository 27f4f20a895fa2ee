import torch
from ending import tell
from torch import nn

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
torch.set_default_device("cpu")
torch.use_deterministic_algorithms(True)
model = nn.Linear(3, 3)
optimizer = torch.optim.Adadelta(model.parameters())
losses = []
for _ in range(24):
    with torch.device("cpu"):
        x = torch.randn(2, 3)
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss)
torch.set_default_device(None)
tell(losses, model, torch.are_deterministic_algorithms_enabled())
