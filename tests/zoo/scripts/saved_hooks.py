import torch
from ending import tell
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Sigmoid(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses, packed, unpacked = [], [], []


def pack(x):
    packed.append(tuple(x.shape))
    return x.double()


def unpack(x):
    unpacked.append(tuple(x.shape))
    return x.float()


for step in range(24):
    with saved_tensors_hooks(pack, unpack) if step % 2 else save_on_cpu():
        loss = model(torch.randn(4, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss)
with torch.autograd.graph.disable_saved_tensors_hooks("none here"):
    losses.append(model(torch.ones(1, 4)).sum())
tell(losses, model, packed, unpacked)
