"""liger-kernel through its own public functions, forward and backward, small sizes.

Run by `reefwatch kernels`; the package is used as it comes from PyPI. Each test holds the outputs
and the gradients against the same in plain torch, in float64 where that is short to write.
"""

import torch
import torch.nn.functional as F
from liger_kernel.transformers import functional as L

CARD = "cuda"


def leaf(*shape, scale=1.0):
    return (torch.randn(shape, device=CARD) * scale).requires_grad_()


def close(got, want, tol=2e-4):
    torch.testing.assert_close(got.double(), want.double(), rtol=tol, atol=tol)


def both(ours, theirs, *leaves, tol=2e-4):
    """Outputs and gradients of a function against a reference in f64."""
    out = ours(*leaves)
    out = out if isinstance(out, tuple) else (out,)
    wide = [x.detach().double().requires_grad_() for x in leaves]
    want = theirs(*wide)
    want = want if isinstance(want, tuple) else (want,)
    for one, other in zip(out, want, strict=True):
        close(one, other, tol)
    weights = [torch.randn_like(one) for one in out]
    sum((one * w).sum() for one, w in zip(out, weights, strict=True)).backward()
    sum((one * w.double()).sum() for one, w in zip(want, weights, strict=True)).backward()
    for leaf_, other in zip(leaves, wide, strict=True):
        if leaf_.grad is not None:
            close(leaf_.grad, other.grad, tol)


def rms(x, w, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w


def test_cross_entropy():
    target = torch.randint(0, 300, (12,), device=CARD)
    both(lambda x: L.liger_cross_entropy(x.clone(), target),
         lambda x: F.cross_entropy(x, target), leaf(12, 300))  # fmt: skip


def test_cross_entropy_smoothed():
    target = torch.randint(0, 300, (12,), device=CARD)
    both(lambda x: L.liger_cross_entropy(x.clone(), target, label_smoothing=0.1, reduction="sum"),
         lambda x: F.cross_entropy(x, target, label_smoothing=0.1, reduction="sum"),
         leaf(12, 300), tol=1e-3)  # fmt: skip


def test_fused_linear_cross_entropy():
    target = torch.randint(0, 96, (8,), device=CARD)
    both(lambda x, w: L.liger_fused_linear_cross_entropy(x, w, target),
         lambda x, w: F.cross_entropy(x @ w.T, target),
         leaf(8, 32), leaf(96, 32, scale=0.2), tol=1e-3)  # fmt: skip


def test_fused_linear_jsd():
    s, sw = leaf(8, 32), leaf(64, 32, scale=0.2)
    t, tw = torch.randn(8, 32, device=CARD), torch.randn(64, 32, device=CARD) * 0.2
    L.liger_fused_linear_jsd(s, sw, t, tw).backward()
    assert torch.isfinite(s.grad).all()


def test_fused_linear_kl_div():
    target = torch.softmax(torch.randn(8, 64, device=CARD), -1)
    s, sw = leaf(8, 32), leaf(64, 32, scale=0.2)
    L.liger_fused_linear_kl_div(s, sw, target).backward()
    assert torch.isfinite(s.grad).all()


def test_geglu():
    both(L.liger_geglu, lambda a, b: F.gelu(a, approximate="tanh") * b,
         leaf(6, 200), leaf(6, 200))  # fmt: skip


def test_swiglu():
    both(L.liger_swiglu, lambda a, b: F.silu(a) * b, leaf(6, 200), leaf(6, 200))


def test_relu_squared():
    both(L.liger_relu_squared, lambda x: F.relu(x).pow(2), leaf(6, 200))


def test_group_norm():
    both(lambda x, w, b: L.liger_group_norm(x, w, b, 6, 3, 1e-5),
         lambda x, w, b: F.group_norm(x, 3, w, b, 1e-5),
         leaf(2, 6, 40), leaf(6), leaf(6), tol=1e-3)  # fmt: skip


def test_layer_norm():
    both(lambda x, w, b: L.liger_layer_norm(x, w, b, 1e-5),
         lambda x, w, b: F.layer_norm(x, (200,), w, b, 1e-5),
         leaf(6, 200), leaf(200), leaf(200), tol=1e-3)  # fmt: skip


def test_rms_norm():
    both(lambda x, w: L.liger_rms_norm(x, w, 1e-6, in_place=False), rms,
         leaf(6, 200), leaf(200), tol=1e-3)  # fmt: skip


def test_rms_norm_many_rows():
    both(lambda x, w: L.liger_rms_norm(x, w, 1e-6, in_place=False), rms,
         leaf(40, 128), leaf(128), tol=1e-3)  # fmt: skip


def test_modulated_rms_norm():
    both(lambda x, w, s: L.liger_modulated_rms_norm(x, w, s, in_place=False),
         lambda x, w, s: rms(x, w) * (1 + s),
         leaf(2, 6, 64), leaf(64), leaf(2, 1, 64), tol=1e-3)  # fmt: skip


def test_fused_add_rms_norm():
    both(lambda x, r, w: L.liger_fused_add_rms_norm(x, r, w, 1e-6, in_place=False),
         lambda x, r, w: (rms(x + r, w), x + r),
         leaf(6, 200), leaf(6, 200), leaf(200), tol=1e-3)  # fmt: skip


def test_poly_norm():
    def reference(x, w, b):
        def norm(t):
            return t * torch.rsqrt(t.pow(2).mean(-1, keepdim=True) + 1e-6)

        return w[0] * norm(x**3) + w[1] * norm(x**2) + w[2] * norm(x) + b

    both(lambda x, w, b: L.liger_poly_norm(x, w, b, in_place=False), reference,
         leaf(6, 200), leaf(3), leaf(), tol=2e-3)  # fmt: skip


def test_jsd():
    x = torch.log_softmax(torch.randn(8, 100, device=CARD), -1).requires_grad_()
    t = torch.log_softmax(torch.randn(8, 100, device=CARD), -1)
    L.liger_jsd(x, t).backward()
    assert torch.isfinite(x.grad).all()


def test_kl_div():
    t = torch.softmax(torch.randn(8, 100, device=CARD), -1)
    x = torch.log_softmax(torch.randn(8, 100, device=CARD), -1).requires_grad_()
    both(lambda x: L.liger_kl_div(x, t, reduction="batchmean"),
         lambda x: F.kl_div(x, t.double(), reduction="batchmean"), x)  # fmt: skip


def test_tvd():
    x = torch.softmax(torch.randn(8, 100, device=CARD), -1).requires_grad_()
    t = torch.softmax(torch.randn(8, 100, device=CARD), -1)
    L.liger_tvd(x, t).backward()
    assert torch.isfinite(x.grad).all()


def test_softmax():
    both(L.liger_softmax, lambda x: torch.softmax(x, -1), leaf(6, 200))


def test_softmax_wide():
    both(L.liger_softmax, lambda x: torch.softmax(x, -1), leaf(2, 9000))


def test_sparsemax():
    x = leaf(6, 60)
    out = L.liger_sparsemax(x)
    close(out.sum(-1), torch.ones(6, device=CARD))
    out.pow(2).sum().backward()


def test_dyt():
    both(L.liger_dyt, lambda x, a, g, b: g * torch.tanh(a * x) + b,
         leaf(6, 64), leaf(1), leaf(64), leaf(64), tol=1e-3)  # fmt: skip


def test_rope():
    q, k = leaf(1, 4, 8, 32), leaf(1, 2, 8, 32)
    angle = torch.randn(1, 8, 16, device=CARD)
    angle = torch.cat([angle, angle], -1)

    def turn(x, cos, sin):
        half = x.shape[-1] // 2
        return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin

    def reference(q, k):
        cos, sin = angle.double().cos()[:, None], angle.double().sin()[:, None]
        return turn(q, cos, sin), turn(k, cos, sin)

    both(lambda q, k: L.liger_rope(q.clone(), k.clone(), angle.cos(), angle.sin()), reference, q, k)


def test_qwen2vl_mrope():
    q, k = leaf(1, 4, 8, 32), leaf(1, 2, 8, 32)
    angle = torch.randn(3, 1, 8, 16, device=CARD)
    angle = torch.cat([angle, angle], -1)
    a, b = L.liger_qwen2vl_mrope(q.clone(), k.clone(), angle.cos(), angle.sin(), [4, 6, 6])
    (a.sum() + b.sum()).backward()


def test_multi_token_attention():
    s, w = leaf(1, 2, 16, 16), leaf(2, 2, 3, 3, scale=0.3)
    L.liger_multi_token_attention(s, w, padding=1).sum().backward()
    assert torch.isfinite(s.grad).all()


def test_fused_neighborhood_attention():
    q, k, v = leaf(1, 2, 32, 32), leaf(1, 2, 32, 32), leaf(1, 2, 32, 32)
    L.liger_fused_neighborhood_attention(q, k, v, kernel_size=7).sum().backward()
    assert torch.isfinite(q.grad).all()


def test_attn_res():
    v, q, w = leaf(4, 1, 8, 64), leaf(64, scale=0.1), leaf(64)
    L.liger_attn_res(v, q, w).sum().backward()
    assert torch.isfinite(v.grad).all()


def test_mhc_coeffs():
    x = leaf(1, 8, 4, 32)
    phi, b = leaf(128, 24, scale=0.1), leaf(24)
    a = [torch.tensor(0.5, device=CARD, requires_grad=True) for _ in range(3)]
    pre, post, res = L.liger_mhc_coeffs(x, phi, b, *a, allow_fp32=True)
    (pre.sum() + post.sum() + res.pow(2).sum()).backward()


def test_mhc_pre():
    both(L.liger_mhc_pre, lambda x, h: (x * h[..., None]).sum(-2),
         leaf(1, 8, 4, 32), leaf(1, 8, 4))  # fmt: skip


def test_mhc_post_res():
    x, f, h, r = leaf(1, 8, 4, 32), leaf(1, 8, 32), leaf(1, 8, 4), leaf(1, 8, 4, 4)
    L.liger_mhc_post_res(x, f, h, r).sum().backward()
