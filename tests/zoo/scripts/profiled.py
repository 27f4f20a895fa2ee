import torch
from ending import tell
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses, told = [], []


def ready(p):
    names = {e.key: e.count for e in p.key_averages()}
    told.append(sorted((k, v) for k, v in names.items() if k.startswith("aten::")))


with profile(
    activities=[ProfilerActivity.CPU],
    record_shapes=True,
    with_stack=False,
    schedule=schedule(wait=1, warmup=1, active=3, repeat=2),
    on_trace_ready=ready,
) as p:
    for _ in range(12):
        with record_function("one step"):
            loss = model(torch.randn(4, 4)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss)
        p.step()
tell(losses, model, *told)
