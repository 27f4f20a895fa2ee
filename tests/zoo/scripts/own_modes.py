"""The user's own dispatch and function modes: held across steps, and opened and closed inside."""

import torch
from ending import tell
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode


class Ops(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


class Calls(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(getattr(func, "__name__", "?"))
        return func(*args, **(kwargs or {}))


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses, told = [], []


def step():
    loss = model(torch.randn(4, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())


step()
with Ops() as ops, FlopCounterMode(display=False) as flops:
    for _ in range(12):
        step()
told += [len(ops.names), hash(tuple(sorted(set(ops.names)))) * 0, flops.get_total_flops()]
with Calls() as calls:
    for _ in range(12):
        step()
told += [len(calls.names), calls.names[:40]]
for _ in range(6):
    with FlopCounterMode(display=False) as flops:
        loss = model(torch.randn(4, 4)).square().mean()
    told.append(flops.get_total_flops())
    optimizer.zero_grad()
    with Ops() as ops:
        loss.backward()
        optimizer.step()
        with FlopCounterMode(model, display=False, depth=2) as flops:
            losses.append(model(torch.ones(1, 4)).sum().item())
    told += [ops.names, sorted(flops.get_flop_counts())]
one, two = Ops(), Ops()
one.__enter__()
two.__enter__()
step()
two.__exit__(None, None, None)
step()
one.__exit__(None, None, None)
told += [len(one.names), len(two.names), torch._C._len_torch_function_stack()]
tell(losses, model, *told)
