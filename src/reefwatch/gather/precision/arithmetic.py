"""What an op is, and how many floating-point operations it takes.

A multiply and an add count as two. Formulas: 2 M N K for a product; per output element of a
convolution 2 x (input channels of a group) x kernel size; attention as its two products, and its
backward as five (the scores are computed again), as `torch.utils.flop_counter` counts them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

Flops = Callable[[Any, Any], int]


def _product(at: int) -> Flops:
    def flops(args: Any, out: Any) -> int:
        return int(2 * out.numel() * args[at].shape[-1])

    return flops


def _batch_sum(args: Any, out: Any) -> int:
    return int(2 * out.numel() * prod(args[1].shape[0::2]))


def _dot(args: Any, out: Any) -> int:
    return int(2 * args[0].numel())


def _conv_of(x: Any, weight: Any, out: Any, transposed: bool) -> int:
    return int(2 * (x if transposed else out).numel() * prod(weight.shape[1:]))


def _conv(args: Any, out: Any) -> int:
    return _conv_of(args[0], args[1], out, len(args) > 6 and bool(args[6]))


def _conv_plain(args: Any, out: Any) -> int:
    return _conv_of(args[0], args[1], out, False)


def _conv_transpose(args: Any, out: Any) -> int:
    return _conv_of(args[0], args[1], out, True)


def _conv_backward(args: Any, out: Any) -> int:
    grad, x, weight = args[:3]
    return _conv_of(x, weight, grad, bool(args[7])) * (int(args[10][0]) + int(args[10][1]))


def _scores(q: Any, k: Any) -> int:
    return int(2 * prod(q.shape[:-1]) * k.shape[-2])


def _attention(args: Any, out: Any) -> int:
    q, k, v = args[:3]
    return _scores(q, k) * int(q.shape[-1] + v.shape[-1])


def _attention_backward(args: Any, out: Any) -> int:
    q, k, v = args[1:4]
    return _scores(q, k) * int(3 * q.shape[-1] + 2 * v.shape[-1])


_MATMUL: dict[str, Flops] = {
    **dict.fromkeys(("mm", "bmm", "matmul", "mv", "linear", "mkldnn_linear"), _product(0)),
    **dict.fromkeys(("addmm", "baddbmm", "addmv", "_addmm_activation"), _product(1)),
    # autocast casts none of the in-place forms
    **dict.fromkeys(("addmm_", "baddbmm_", "addmv_"), _product(1)),
    **dict.fromkeys(("addbmm", "addbmm_"), _batch_sum),
    "dot": _dot,
    "vdot": _dot,
    **dict.fromkeys(
        (
            "scaled_dot_product_attention",
            "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_flash_attention_for_cpu",
            "_scaled_dot_product_efficient_attention",
            "_scaled_dot_product_cudnn_attention",
            "_scaled_dot_product_fused_attention_overrideable",
        ),
        _attention,
    ),
    **dict.fromkeys(
        (
            "_scaled_dot_product_flash_attention_backward",
            "_scaled_dot_product_flash_attention_for_cpu_backward",
            "_scaled_dot_product_efficient_attention_backward",
            "_scaled_dot_product_cudnn_attention_backward",
            "_scaled_dot_product_fused_attention_overrideable_backward",
        ),
        _attention_backward,
    ),
}
_CONV: dict[str, Flops] = {
    "convolution": _conv,
    "_convolution": _conv,
    "convolution_overrideable": _conv,
    "convolution_backward": _conv_backward,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "mkldnn_convolution"), _conv_plain),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _conv_transpose),
}
_NORM = ("batch_norm", "layer_norm", "group_norm", "rms_norm", "instance_norm")
_LOSS = ("_loss", "cross_entropy", "kl_div", "log_softmax")


def kind_of(name: str) -> tuple[str, Flops | None]:
    """(kind of the record, formula) of `aten.mm.default`."""
    space, _, rest = name.partition(".")
    base = rest.partition(".")[0]
    if space == "aten" and base in _MATMUL:
        return "matmul", _MATMUL[base]
    if space == "aten" and base in _CONV:
        return "conv", _CONV[base]
    if base == "_to_copy":
        return "cast", None
    if any(word in base for word in _NORM):
        return "norm", None
    if any(word in base for word in _LOSS):
        return "loss", None
    return "other", None
