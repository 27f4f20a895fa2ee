"""conch-triton-kernels through some public functions, small sizes; run by `reefwatch kernels`."""

import torch
import torch.nn.functional as F

CARD = "cuda"


def close(got, want, tol=2e-4):
    torch.testing.assert_close(got.double(), want.double(), rtol=tol, atol=tol)


def test_gelu_tanh_and_mul():
    from conch.ops.activation.gelu_tanh_and_mul import gelu_tanh_and_mul

    x = torch.randn(6, 256, device=CARD)
    close(gelu_tanh_and_mul(x), F.gelu(x[:, :128].double(), approximate="tanh") * x[:, 128:])


def test_silu_and_mul():
    from conch.ops.activation.silu_and_mul import silu_and_mul

    x = torch.randn(6, 256, device=CARD)
    close(silu_and_mul(x), F.silu(x[:, :128].double()) * x[:, 128:])


def test_rms_norm():
    from conch.ops.normalization.rms_norm import fused_add_rms_norm, rms_norm

    x, w = torch.randn(6, 128, device=CARD), torch.randn(128, device=CARD)
    wide = x.double()
    want = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6) * w
    close(rms_norm(x, w, 1e-6), want)
    fused_add_rms_norm(x.clone(), torch.randn_like(x), w, 1e-6)


def test_gemma_rms_norm():
    from conch.ops.normalization.gemma_rms_norm import gemma_rms_norm

    x, w = torch.randn(6, 128, device=CARD), torch.randn(128, device=CARD)
    gemma_rms_norm(x.clone(), w, 1e-6)


def test_int8():
    from conch.ops.quantization.int8 import scaled_int8_quant

    x = torch.randn(6, 128, device=CARD)
    scaled_int8_quant(x, torch.tensor([0.05], device=CARD))
    scaled_int8_quant(x)


def test_rotary():
    from conch.ops.embedding.rotary_embedding import rotary_embedding

    positions = torch.arange(8, device=CARD)
    q, k = torch.randn(8, 4 * 64, device=CARD), torch.randn(8, 2 * 64, device=CARD)
    rotary_embedding(positions, q, k, 64, torch.randn(16, 64, device=CARD))


def test_nms():
    from conch.ops.vision.nms import nms

    corner = torch.rand(40, 2, device=CARD) * 10
    boxes = torch.cat([corner, corner + 1 + torch.rand(40, 2, device=CARD) * 3], 1)
    nms(boxes, torch.rand(40, device=CARD), 0.5)


def test_copy_blocks():
    from conch.ops.vllm.copy_blocks import copy_blocks

    keys = [torch.randn(4, 64, device=CARD) for _ in range(2)]
    values = [torch.randn(4, 64, device=CARD) for _ in range(2)]
    want = keys[0][1].clone()
    copy_blocks(keys, values, torch.tensor([[1, 3]], device=CARD))
    assert torch.equal(keys[0][3], want)
