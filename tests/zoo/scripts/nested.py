"""Nested tensors of both layouts."""

import warnings

import torch
from ending import tell

warnings.simplefilter("ignore")
torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for _ in range(8):
    for layout in (torch.jagged, torch.strided):
        optimizer.zero_grad()
        parts = [torch.randn(2, 4), torch.randn(3, 4)]
        out = model(torch.nested.nested_tensor(parts, layout=layout))
        loss = torch.nested.to_padded_tensor(out, 0.0).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss)
tell(losses, model, optimizer)
