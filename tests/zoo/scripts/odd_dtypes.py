"""Complex numbers, quantised and integer ops, and low-precision storage types."""

import warnings

import torch
from ending import tell
from torch import nn

warnings.simplefilter("ignore")
torch.manual_seed(0)
weight = nn.Parameter(torch.randn(4, 4, dtype=torch.cfloat))
model = nn.Module()
model.weight = weight
optimizer = torch.optim.Adam([weight], lr=0.01)
losses = []
for _ in range(20):
    x = torch.fft.fft(torch.randn(3, 4))
    loss = (x @ weight).abs().square().mean() + torch.view_as_real(weight).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss)
a = torch.randint(-128, 127, (8, 8), dtype=torch.int8)
losses.append(torch._int_mm(a, a).sum())
q = torch.quantize_per_tensor(torch.randn(8), 0.1, 3, torch.quint8)
losses.append((q.int_repr().sum() + q.dequantize().sum()).item())
f8 = torch.randn(8).to(torch.float8_e4m3fn)
losses.append(f8.float().sum())
losses.append(torch.fake_quantize_per_tensor_affine(torch.randn(8), 0.1, 0, -128, 127).sum())
tell(losses, model, weight.conj().resolve_conj(), a)
