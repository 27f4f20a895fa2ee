"""Mutants that are flags: operands of fp32 products rounded, sums of fp16 products in fp16.

Each flag is set alone, around one training step of a small net, and put back. What it does on this
machine is measured beside: the error of a product and of a convolution against float64, and on a
GPU the names of the kernels. The twin without a flag has to be silent.

    python scripts/verify/precision_flags.py [--device cuda]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from reefwatch.core.fact import Evidence
from reefwatch.core.record import Record
from reefwatch.data import kernels
from reefwatch.gather.instrument import Tools
from reefwatch.gather.ops import OpLayer
from reefwatch.gather.precision.examine import Memory, examine
from reefwatch.gather.precision.gates import Gates
from reefwatch.judge.engine import judge, load

CODES = ("PREC004", "PREC050", "PREC052")
Setter = Callable[[bool], None]


def _tf32(on: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = on


def _high(on: bool) -> None:
    torch.set_float32_matmul_precision("high" if on else "highest")


def _medium(on: bool) -> None:
    torch.set_float32_matmul_precision("medium" if on else "highest")


def _conv(on: bool) -> None:
    torch.backends.mkldnn.conv.fp32_precision = "bf16" if on else "ieee"


def _cudnn(on: bool) -> None:
    torch.backends.cudnn.allow_tf32 = on


def _sums(on: bool) -> None:
    torch.backends.cuda.matmul.allow_fp16_accumulation = on


def _nothing(on: bool) -> None:
    pass


#: name, setter, claim, the code that has to tell on the CPU and on a GPU
MUTANTS: tuple[tuple[str, Setter, str, str, str], ...] = (
    ("none", _nothing, "fp32", "", ""),
    ("none", _nothing, "fp16-mixed", "", ""),
    ("matmul.allow_tf32", _tf32, "fp32", "PREC052", "PREC004"),
    ("float32_matmul_precision high", _high, "fp32", "PREC052", "PREC004"),
    ("float32_matmul_precision medium", _medium, "fp32", "PREC004", "PREC004"),
    ("mkldnn.conv.fp32_precision bf16", _conv, "fp32", "PREC004", ""),
    ("cudnn.allow_tf32", _cudnn, "fp32", "", "PREC004"),
    ("matmul.allow_fp16_accumulation", _sums, "fp16-mixed", "PREC052", "PREC050"),
)


def judged(device: str, claim: str) -> dict[str, int]:
    """Findings by code after one step of a net with a convolution and two products."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 36, 64))
    net = net.append(nn.Linear(64, 8)).to(device)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    x = torch.randn(8, 16, 8, 8, device=device)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(device, torch.float16, enabled=claim != "fp32"):
            loss = net(x).float().pow(2).mean()
        loss.backward()
        optimizer.step()

    seen = examine(step, optimizers=[optimizer], claim=claim)
    facts = {**seen.facts, **_gates(step)}
    kind = "cpu" if device == "cpu" else "amd" if torch.version.hip else "nvidia"
    name = "" if device == "cpu" else torch.cuda.get_device_name(0)
    facts["env.device"] = Evidence("env.device", {"kind": kind, "name": name, "count": 1})
    checks = [check for check in load() if check.code in CODES]
    record = Record({"rank": 0, "world": 1}, facts, seen.events)
    return {one.code: len(one.findings) for one in judge([record], checks)[0] if one.findings}


def _gates(step: Callable[[], None]) -> dict[str, Any]:
    memory = Memory()
    tools = Tools(torch, memory, lambda: 0.0, None, {})
    gates = Gates()
    gates.arm(tools)
    layer = OpLayer(tools, [gates])
    layer.enter(0)
    try:
        step()
    finally:
        layer.leave()
    gates.close(0)
    gates.disarm()
    return memory.facts


def errors(device: str, dtype: torch.dtype) -> tuple[float, float]:
    """Largest error of a product and of a convolution, by the largest result in float64."""
    torch.manual_seed(1)
    a, b = (torch.randn(512, 512, device=device, dtype=dtype) for _ in range(2))
    x = torch.randn(4, 64, 32, 32, device=device, dtype=dtype)
    w = torch.randn(64, 64, 3, 3, device=device, dtype=dtype)
    conv = nn.functional.conv2d
    pairs = ((a @ b, a.double() @ b.double()), (conv(x, w), conv(x.double(), w.double())))
    product, convolution = (float((y - z).abs().max() / z.abs().max()) for y, z in pairs)
    return product, convolution


def computed(device: str, dtype: torch.dtype) -> str:
    """On a GPU: what the kernels' names say that the products computed in."""
    if device == "cpu":
        return ""
    from torch.profiler import ProfilerActivity, profile

    a, b = (torch.randn(512, 512, device=device, dtype=dtype) for _ in range(2))
    x = torch.randn(4, 64, 32, 32, device=device, dtype=dtype)
    w = torch.randn(64, 64, 3, 3, device=device, dtype=dtype)
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
        _ = a @ b
        nn.functional.conv2d(x, w)
        torch.cuda.synchronize()
    names = {event.name for event in seen.events() if event.device_type.name == "CUDA"}
    told = [kernels.classify(name) for name in names]
    return ", ".join(sorted({t.compute_dtype for t in told if t.role in ("gemm", "conv")}))


def flags(device: str) -> tuple[str, list[str]]:
    """The section of the page, and the bars that were missed."""
    missed = []
    lines = [
        "| flag | claim | findings | largest error of a product, of a convolution | kernels |",
        "| --- | --- | --- | ---: | --- |",
    ]
    if device != "cpu":
        torch.backends.cudnn.allow_tf32 = False  # on by default: told, and no fault of the twin
    for name, setter, claim, cpu, gpu in MUTANTS:
        setter(True)
        try:
            told = judged(device, claim)
            dtype = torch.float32 if claim == "fp32" else torch.float16
            product, convolution = errors(device, dtype)
            kinds = computed(device, dtype)
        finally:
            setter(False)
        wanted = cpu if device == "cpu" else gpu
        # what is obeyed here may be a flag of a card too, which is told as a note beside
        beside = {"PREC052"} if wanted == "PREC004" else set()
        if (wanted and wanted not in told) or set(told) - {wanted} - beside:
            missed.append(f"{name} under {claim}: {', '.join(told) or 'nothing'}")
        said = ", ".join(f"{code} x {count}" for code, count in told.items()) or "none"
        lines.append(f"| {name} | {claim} | {said} | {product:.1e}, {convolution:.1e} | {kinds} |")
    text = "\n".join(
        [
            f"## Flags, on {device}\n",
            "Each alone, one training step without or under autocast; PREC052 is a note: the flag "
            "does nothing on a CPU and something on a card.\n",
            *lines,
            "",
        ]
    )
    return text, missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    torch.set_num_threads(1)
    text, missed = flags(parser.parse_args().device)
    print(text)
    print("Missed: " + ("; ".join(missed) if missed else "none"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
