"""The bars of the attention gate: the path that is told is the path that torch's profiler shows.

Each case calls attention once with the op layer on, and once more under the profiler. On a GPU
more paths exist, and torch's own reasons are shown.

    python scripts/verify/precision_gates.py [--device cuda]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

from reefwatch.gather.instrument import Tools
from reefwatch.gather.ops import OpLayer
from reefwatch.gather.precision.attention import Attention
from reefwatch.gather.precision.examine import Memory
from reefwatch.gather.precision.gates import Gates

SHOWN = {
    "aten::_scaled_dot_product_attention_math": "math",
    "aten::_scaled_dot_product_flash_attention": "flash",
    "aten::_scaled_dot_product_flash_attention_for_cpu": "flash",
    "aten::_scaled_dot_product_efficient_attention": "efficient",
    "aten::_scaled_dot_product_cudnn_attention": "cudnn",
    "aten::_scaled_dot_product_fused_attention_overrideable": "fused",
}


@dataclass
class Case:
    name: str
    dtype: torch.dtype = torch.bfloat16
    size: int = 64
    heads: int = 4
    length: int = 128
    keys: int = 128
    more: dict[str, Any] = field(default_factory=dict)
    grad: bool = False
    repeat: int = 1


def cases(device: str) -> Iterator[Case]:
    bf16, f32, f16 = torch.bfloat16, torch.float32, torch.float16

    def mask(dtype: torch.dtype, grad: bool = False) -> torch.Tensor:
        made = torch.zeros(128, 128, device=device, dtype=dtype)
        return made.requires_grad_(True) if grad else made

    for dtype in (bf16, f16, f32):
        for grad in (False, True):
            tag = f"{str(dtype)[6:]}{', with gradients' if grad else ''}"
            yield Case(f"plain, {tag}", dtype, grad=grad)
            yield Case(f"causal, {tag}", dtype, grad=grad, more={"is_causal": True})
            yield Case(f"dropout, {tag}", dtype, grad=grad, more={"dropout_p": 0.1})
            yield Case(
                f"boolean mask, {tag}", dtype, grad=grad, more={"attn_mask": mask(bf16) == 0}
            )
            yield Case(
                f"mask of its dtype, {tag}", dtype, grad=grad, more={"attn_mask": mask(dtype)}
            )
            yield Case(f"three in a loop, {tag}", dtype, grad=grad, repeat=3)
            more = {"attn_mask": mask(bf16) == 0, "dropout_p": 0.1}
            yield Case(f"mask and dropout, {tag}", dtype, grad=grad, more=more)
            more = {"is_causal": True, "dropout_p": 0.1}
            yield Case(f"causal and dropout, {tag}", dtype, grad=grad, more=more, repeat=2)
    yield Case("fp32 mask", more={"attn_mask": mask(f32)})
    yield Case("mask with a gradient", f32, more={"attn_mask": mask(f32, True)})
    yield Case("head size 20", size=20)
    yield Case("head size 257", size=257)
    yield Case("one query", length=1)
    yield Case("more keys than queries", length=64, keys=256)


def path_shown(call: Any, device: str) -> str:
    """By the profiler: the one op of attention, the math path last."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler:
        call()
        if device == "cuda":
            torch.cuda.synchronize()
    names = {event.key for event in profiler.key_averages()}
    found = {SHOWN[name] for name in names & set(SHOWN)}
    return "/".join(sorted(found)) or "none"


def told(call: Any) -> tuple[list[dict[str, Any]], Memory]:
    memory = Memory()
    tools = Tools(torch, memory, lambda: 0.0, None, {})
    instruments = [Attention(), Gates()]
    for one in instruments:
        one.arm(tools)
    layer = OpLayer(tools, instruments)
    layer.enter(0)
    try:
        call()
    finally:
        layer.leave()
    for one in instruments:
        one.close(0)
        one.disarm()
    rows = [dict(event.data) for event in memory.events if event.kind == "precision.attention"]
    return rows, memory


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    device = parser.parse_args().device
    torch.set_num_threads(1)
    agree = count = 0
    lines, last = [], Memory()
    for case in cases(device):
        shape = (2, case.heads, case.length, case.size)
        keys = (2, case.heads, case.keys, case.size)

        def make(shape: tuple[int, ...], case: Case = case) -> torch.Tensor:
            return torch.randn(shape, device=device, dtype=case.dtype, requires_grad=case.grad)

        q, k, v = make(shape), make(keys), make(keys)

        def call(q: Any = q, k: Any = k, v: Any = v, case: Case = case) -> None:
            for _ in range(case.repeat):
                F.scaled_dot_product_attention(q, k, v, **case.more)

        try:
            rows, last = told(call)
            shown = path_shown(call, device)
        except RuntimeError as error:
            print(f"{case.name}: {error}", file=sys.stderr)
            continue
        count += 1
        paths = "/".join(sorted({row["path"] for row in rows})) or "none"
        calls = sum(row["calls"] for row in rows)
        kind = str(case.dtype).removeprefix("torch.").replace("bfloat16", "bf16")
        kind = kind.replace("float16", "f16").replace("float32", "f32")
        right = paths == shown and calls == case.repeat
        right = right and all(row["dtype"] == kind for row in rows)
        agree += right
        if not right or any(row["reasons"] for row in rows):
            reasons = "; ".join(dict.fromkeys(r for row in rows for r in row["reasons"]))
            lines.append(f"| {case.name} | {shown} | {paths} x {calls} | {reasons[:160]} |")
    print(f"## Attention gate on {device}\n")
    print(f"{agree} of {count} calls: the path, the number of calls and the dtype of q agree with")
    print("torch's profiler and the case (bar: all).\n")
    print("| case | profiler | told | reasons |\n|---|---|---|---|")
    print("\n".join(lines))
    blas = last.facts["precision.blas"]
    print(f"\nBLAS library after products: {getattr(blas, 'value', blas)}.")
    return 0 if agree == count and count else 1


if __name__ == "__main__":
    sys.exit(main())
