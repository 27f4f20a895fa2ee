"""Training that is aware of its quantisation, then the quantised model."""

import warnings

import torch
from ending import tell
from torch import nn
from torch.ao import quantization

warnings.simplefilter("ignore")
torch.manual_seed(0)
parts = (quantization.QuantStub(), nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
model = nn.Sequential(*parts, quantization.DeQuantStub()).train()
model.qconfig = quantization.get_default_qat_qconfig("fbgemm")
quantization.prepare_qat(model, inplace=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
losses = []
for _ in range(14):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 4)).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss)
model.eval()
small = quantization.convert(model)
dynamic = quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 4)), {nn.Linear})
tell(losses, small(torch.ones(2, 4)), dynamic(torch.ones(2, 4)), optimizer)
