"""The CUDA and ROCm autocast policy replayed on the CPU: what it predicts, and how far to trust it.

The check: the same machinery replays the CPU's own policy (its kernels written again in Python,
over torch's), and has to give what real CPU autocast gives, byte for byte.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

import torch
from precision_counts import _without, table
from precision_real import Step

from reefwatch.core.record import Case
from reefwatch.gather.precision.examine import examine
from reefwatch.gather.precision.policy import Lists, registered, wide_ops
from reefwatch.gather.precision.replay import Replay

UNEXPLAINED = 0.02


def cpu_lists() -> Lists:
    """The CPU's policy in the form that is replayed."""
    wide = set(wide_ops(torch, "cpu"))
    promote = {"aten::stack", "aten::cat", "aten::index_copy"} & registered(torch, "cpu")
    low = registered(torch, "cpu") - wide - promote
    return Lists("replayed CPU", tuple(low), tuple(wide), (), tuple(promote), ())


class Own(Replay):
    """The CPU's own policy, replayed."""

    def __init__(self) -> None:
        super().__init__(torch)
        self.lists = cpu_lists()


def saved_under(name: str, policy: Replay | None) -> tuple[dict[str, int], float]:
    """(saved bytes by dtype, share of the fp32 ones without a cause) of a step."""
    step = Step(name, "cpu")
    if policy is not None:
        policy.put()
    try:
        more: dict[str, Any] = {"replay": policy}
        record = examine(step, optimizers=[step.optimizer], claim="bf16-mixed", **more)
    finally:
        if policy is not None:
            policy.remove()
    rows = [e.data for e in Case(record).rows("precision.saved_by") if e.data["dtype"] == "f32"]
    return dict(record.facts["precision.saved"].value), _without(rows)


def replay(names: list[str]) -> tuple[str, list[str]]:
    """The section of the page, and the bars that were missed."""
    rows, missed = [], []
    for name in names:
        print(f"replay: {name}", file=sys.stderr)
        real, _ = saved_under(name, None)
        own, _ = saved_under(name, Own())
        cuda, lost = saved_under(name, Replay(torch))
        if any(real.get(d, 0) != own.get(d, 0) for d in ("f32", "bf16")):
            missed.append(f"{name}: the CPU's policy replayed saves {own}, the real one {real}")
        if lost > UNEXPLAINED:
            missed.append(f"{name}: {lost:.1%} of the predicted fp32 bytes have no cause")
        rows.append([name, *map(_cell, (real, own, cuda)), f"{lost:.2%}"])
        gc.collect()
    head = [
        "model",
        "CPU autocast: MiB saved, fp32 share",
        "the same replayed",
        "CUDA policy replayed (predicted)",
        "fp32 without a cause",
    ]
    text = (
        "## The CUDA and ROCm policy, replayed on the CPU\n\n"
        "Autocast's kernels are put aside in the dispatcher and the other device's lists are "
        "played in their place. That gives the policy of the device, not its kernels: attention "
        f"keeps what the CPU's keeps.\n\n{table(head, rows)}\n"
    )
    return text, missed


def _cell(saved: dict[str, int]) -> str:
    total = sum(size for dtype, size in saved.items() if dtype in ("f32", "bf16"))
    return f"{total / 2**20:.2f}, {saved.get('f32', 0) / total:.1%}"
