"""torch.export, make_fx and fx.symbolic_trace in the middle of training."""

import torch
from ending import tell
from torch import fx, nn
from torch.fx.experimental.proxy_tensor import make_fx

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses, told = [], []
for step in range(12):
    loss = model(torch.randn(3, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss)
    if step == 2:
        told.append(fx.symbolic_trace(model).code)
    if step == 4:
        told.append(make_fx(lambda x: model(x).sin().sum())(torch.ones(3, 4)).code)
        told.append(
            make_fx(lambda x: x.sin().sum(), tracing_mode="symbolic")(torch.ones(3, 4)).code
        )
    if step == 6:
        program = torch.export.export(model.eval(), (torch.ones(3, 4),))
        told.append(str(program.graph))
        losses.append(program.module()(torch.ones(3, 4)).sum())
        model.train()
tell(losses, model, *told)
