"""Autocast's lists: which op runs in which dtype, from torch itself or a shipped table.

That an op is listed at all is told by the dispatcher's registry (private, so it is asked with
care); in which list it is, by ATen/autocast_mode.h, which ships in the wheel. Where either is
missing, `data/autocast/` has the lists as they were read from a release.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any

from reefwatch.data import table

_MACROS = {
    "AT_FORALL_LOWER_PRECISION_FP": "low",
    "AT_FORALL_FP32": "f32",
    "AT_FORALL_FP32_SET_OPT_DTYPE": "f32_unless_asked",
    "AT_FORALL_PROMOTE": "promote",
}
_CPU_LOW = frozenset(
    [
        "conv1d",
        "conv2d",
        "conv3d",
        "bmm",
        "mm",
        "linalg_vecdot",
        "baddbmm",
        "addmm",
        "_addmm_activation",
        "addbmm",
        "linear",
        "_convolution",
        "matmul",
        "conv_tbc",
        "mkldnn_rnn_layer",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "prelu",
        "scaled_dot_product_attention",
        "_native_multi_head_attention",
    ]
)
_CPU_PROMOTE = frozenset(("stack", "cat", "index_copy"))


@dataclass(frozen=True)
class Lists:
    """Qualified op names (`aten::softmax.int`) by list, and where they were read."""

    source: str
    low: tuple[str, ...] = ()
    f32: tuple[str, ...] = ()
    f32_unless_asked: tuple[str, ...] = ()
    promote: tuple[str, ...] = ()
    append: tuple[str, ...] = field(default=("aten::norm.Scalar", "aten::norm.ScalarOpt_dim"))

    @property
    def wide(self) -> tuple[str, ...]:
        """All that autocast runs in fp32."""
        return (*self.f32, *self.f32_unless_asked, *self.append)

    @property
    def names(self) -> frozenset[str]:
        """All that is listed."""
        return frozenset((*self.low, *self.wide, *self.promote))


def registered(torch: Any, device: str) -> frozenset[str]:
    """The ops with an autocast kernel for a device type; empty when the registry does not tell."""
    has = getattr(torch._C, "_dispatch_has_kernel_for_dispatch_key", None)
    every = getattr(torch._C, "_dispatch_get_all_op_names", None)
    if has is None or every is None:
        return frozenset()
    key, found = f"Autocast{device.upper()}", []
    for name in every():
        try:
            if name.startswith("aten::") and has(name, key):
                found.append(name)
        except RuntimeError:
            continue
    return frozenset(found)


def cuda_lists(torch: Any) -> Lists:
    """The lists for CUDA, which ROCm shares."""
    header = os.path.join(os.path.dirname(torch.__file__), "include", "ATen", "autocast_mode.h")
    try:
        with open(header, encoding="utf-8") as file:
            lists = parse(file.read())
        source = "ATen/autocast_mode.h"
    except (OSError, ValueError):
        shipped = table("autocast/cuda.toml")
        lists = {name: list(shipped[name]) for name in _MACROS.values()}
        source = f"the lists of torch {shipped['torch']}"
    listed = registered(torch, "cuda")
    if listed:  # the registry is what this build really does
        source += " and the dispatcher's registry"
        lists = {name: [op for op in ops if op in listed] for name, ops in lists.items()}
    return Lists(source, **{name: tuple(ops) for name, ops in lists.items()})


def parse(text: str) -> dict[str, list[str]]:
    """The lists of the header's macros. Raises ValueError when one is not there."""
    told: dict[str, list[str]] = {}
    for macro, name in _MACROS.items():
        body = re.search(rf"#define {macro}\(_\)((?:.*\\\n)*.*)", text)
        entries = re.findall(r"_\(\s*(\w+)\s*(?:,\s*(\w+)\s*)?\)", body[1]) if body else []
        if not entries:
            raise ValueError(f"{macro} is not in this header")
        told[name] = [f"aten::{op}.{over}" if over else f"aten::{op}" for op, over in entries]
    return told


def wide_ops(torch: Any, device: str) -> tuple[str, ...]:
    """What autocast runs in fp32 on a device type."""
    if device != "cpu":
        return cuda_lists(torch).wide
    kept = _CPU_LOW | _CPU_PROMOTE
    return tuple(
        name
        for name in sorted(registered(torch, "cpu"))
        if name.removeprefix("aten::").partition(".")[0] not in kept
    )
