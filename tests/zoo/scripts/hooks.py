import torch
from ending import tell
from torch import nn

torch.manual_seed(0)
seen = []
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
model[0].register_forward_pre_hook(lambda m, a: (a[0] * 2,))
model[1].register_forward_hook(lambda m, a, out: out + 1)
model[2].register_full_backward_hook(lambda m, i, o: seen.append(o[0].sum().item()))
model[2].register_full_backward_pre_hook(lambda m, o: (o[0] * 0.5,))
model[0].weight.register_hook(lambda g: g * 0.9)
model[0].weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.norm().item()))
everywhere = nn.modules.module.register_module_forward_hook(lambda m, a, o: seen.append(0.25))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer.register_step_pre_hook(lambda o, a, k: seen.append(1.5))
optimizer.register_step_post_hook(lambda o, a, k: seen.append(2.5))
from torch.optim.optimizer import register_optimizer_step_post_hook  # noqa: E402

register_optimizer_step_post_hook(lambda o, a, k: seen.append(3.5))
losses = []
for step in range(24):
    x = torch.randn(4, 4, requires_grad=True)
    x.register_hook(lambda g: seen.append(g.sum().item()))
    hidden = model[0](x)
    hidden.retain_grad()
    loss = model(x).square().mean() + hidden.mean()
    loss.grad_fn.register_hook(lambda i, o: None)
    loss.register_hook(lambda g: g * 3)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses += [loss, hidden.grad.sum()]
    if step == 12:
        everywhere.remove()
tell([*losses, *seen], model)
