"""Why an op is in fp32: rules over what was dispatched, first match wins.

After docs/decisions/0001: a cast and its consumer dispatched from one frame at one instruction
are one call of the program, so the cast was made by autocast's policy (or by a `dtype=`); a cast
at an instruction of its own was written there.
"""

from __future__ import annotations

from typing import Any

from reefwatch.core.dtypes import FLOATS, HIGH, LOW

# ops that take `dtype=`: the cast under them is the caller's wish, unless autocast lists them too
_TAKES_DTYPE = ("softmax", "log_softmax", "sum", "mean", "prod", "cumsum", "cumprod", "norm")
_ALIASES = {
    "_softmax": "softmax",
    "_log_softmax": "log_softmax",
    "native_layer_norm": "layer_norm",
    "native_group_norm": "group_norm",
    "linalg_vector_norm": "norm",
}


class Policy:
    """Which ops autocast lists for a device type, read from torch's own registry."""

    def __init__(self, torch: Any) -> None:
        self._has = getattr(torch._C, "_dispatch_has_kernel_for_dispatch_key", None)
        self._known: dict[tuple[str, str], bool] = {}

    def lists(self, base: str, device: str) -> bool:
        """True when autocast has a rule for `base` on that device type, or that cannot be told."""
        key = (base, device)
        if key not in self._known:
            self._known[key] = self._read(_ALIASES.get(base, base), device)
        return self._known[key]

    def _read(self, base: str, device: str) -> bool:
        if self._has is None:
            return True
        told = False
        for overload in ("", ".int", ".dim_IntList"):
            try:
                told = told or self._has(f"aten::{base}{overload}", f"Autocast{device.upper()}")
            except RuntimeError:
                continue
        return told


def of_cast(up: bool, one_call: bool, consumer: str, listed: bool, autocast: str) -> str | None:
    """The cause of a cast, once the op after it is known (`""` when nothing followed)."""
    if not up:
        return "policy" if one_call and autocast != "off" else None
    by_policy = listed or _ALIASES.get(consumer, consumer) not in _TAKES_DTYPE
    if one_call and autocast != "off" and by_policy:
        return "policy"
    return "explicit upcast"


def of_op(
    kind: str,
    ins: tuple[str, ...],
    outs: tuple[str, ...],
    site: Any,
    cast_before: str | None,
    writes: bool,
) -> str | None:
    """The cause of an op that is no cast; None when it is not in fp32, or not known yet."""
    floats = [dtype for dtype in ins if dtype in FLOATS]
    high = any(dtype in HIGH for dtype in floats)
    low = any(dtype in LOW for dtype in floats)
    if kind in ("matmul", "conv") and high:
        if site.autocast == "off":
            return "autocast off"
        # autocast was on: it does not touch fp64, nor `out=` and in-place forms; but a composite op
        # of its fp32 list (cdist, linalg) or attention's plain path runs its own products in fp32
        if site.compiled:
            return None  # who decided it cannot be told any more
        own = writes or "f64" in floats or site.phase == "backward"
        return "inherited" if own else "policy"
    outs = outs or ins  # an op in place, or one that gives a number
    if not any(dtype in HIGH for dtype in outs) or site.phase == "backward":
        return None
    if not floats:
        return "made in f32"
    if cast_before is not None:
        return cast_before
    if low and (not high or (outs[0] in LOW)):  # statistics beside a result in low precision
        return "kernel returns f32"
    return "type promotion" if low else "inherited"


def of_backward(ins: tuple[str, ...], outs: tuple[str, ...], forward: str | None) -> str | None:
    """The cause of a backward op with fp32 outputs; `forward` is that of its forward op.

    Gradients have the dtype of what they belong to: the gradient of a weight is fp32 because the
    weight is, that of what a forward op made in fp32 is so for the reason that the forward had.
    """
    if not any(dtype in HIGH for dtype in outs or ins):
        return None
    if forward in ("policy", "explicit upcast", "type promotion", "kernel returns f32"):
        return forward
    floats = [dtype for dtype in ins if dtype in FLOATS]
    return "inherited" if floats else "made in f32"
