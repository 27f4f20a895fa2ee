"""Many optimizers, fused and foreach kinds, schedulers, parameter groups, one of the user's own."""

import torch
from ending import tell
from torch import nn


class Sign(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {"lr": 0.01})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.add_(p.grad.sign(), alpha=-group["lr"])


torch.manual_seed(0)
losses, models = [], []
kinds = [
    Sign,
    torch.optim.Adam,
    torch.optim.Adamax,
    torch.optim.RAdam,
    torch.optim.ASGD,
    lambda p: torch.optim.Adam(p, fused=True),
    lambda p: torch.optim.SGD(p, 0.1, foreach=True),
    lambda p: torch.optim.AdamW(p, amsgrad=True, foreach=True),
]
for kind in kinds:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    optimizer = kind([{"params": model[0].parameters()}, {"params": model[1].parameters()}])
    for step in range(6):
        loss = model(torch.randn(3, 4)).square().mean()
        model.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
        if step == 3:
            optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))], "lr": 0.0})
            optimizer.param_groups[-1]["params"][0].grad = torch.zeros(1)
    models.append(model)
tell(losses, *models)
