import torch
from ending import tell
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(3, 16), nn.Softplus(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-2)
losses = []
for step in range(24):
    x = torch.randn(8, 3, requires_grad=True)
    out = critic(x).sum()
    (slope,) = torch.autograd.grad(out, x, create_graph=True)
    loss = out / 8 + 10 * (slope.norm(dim=1) - 1).square().mean()
    optimizer.zero_grad()
    if step % 3 == 0:
        loss.backward(retain_graph=True, create_graph=True)
        sum(p.grad.square().sum() for p in critic.parameters()).backward(inputs=[x])
        losses.append(x.grad.sum())
        for p in critic.parameters():
            p.grad = p.grad.detach()
    elif step % 3 == 1:
        torch.autograd.backward([loss, out], [torch.ones(()), torch.tensor(0.1)])
    else:
        loss.backward(torch.tensor(2.0))
    optimizer.step()
    losses.append(loss)
tell(losses, critic, optimizer)
