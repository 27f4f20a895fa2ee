"""Inference through the fused kernels that a TorchFunctionMode would switch off."""

import torch
from ending import tell
from torch import nn

torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=True).eval()
attention = nn.MultiheadAttention(32, 4, batch_first=True).eval()
calls = []
fused = torch._transformer_encoder_layer_fwd
torch._transformer_encoder_layer_fwd = lambda *a, **k: calls.append(1) or fused(*a, **k)
outs = []
with torch.no_grad():
    for n in range(30):
        x = torch.randn(2, 7, 32)
        padding = torch.zeros(2, 7, dtype=torch.bool)
        padding[1, 4 + n % 3 :] = True
        outs.append(encoder(x, src_key_padding_mask=padding).sum())
        outs.append(attention(x, x, x, need_weights=False)[0].sum())
tell(outs, encoder, f"fused {len(calls)}")
