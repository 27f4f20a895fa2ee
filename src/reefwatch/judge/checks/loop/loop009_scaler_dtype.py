"""LOOP009: a GradScaler is for float16."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case


def _case(dtype: str) -> Case:
    value: dict[str, Any] = {"used": True, "dtype": dtype, "steps": 9, "skipped": 0}
    return Case.of(loop__scaled=True, loop__scaler=value, loop__scaler_dtype=dtype)


@check(
    "LOOP009",
    Severity.WARNING,
    when=("loop.scaled",),
    needs=("loop.scaler", "loop.scaler_dtype"),
    good=(_case("f16"),),
    bad=(_case("bf16"),),
)
def scaler_dtype(case: Case) -> Iterator[Finding]:
    """A GradScaler scales float16 only.

    bfloat16 has the exponent of float32: its gradients do not underflow, so there is nothing to
    scale.

    Why: the scaler reads the device in every step, may skip updates, and costs precision nowhere
    gained.
    Fix: drop the GradScaler (or build it with `enabled=dtype == torch.float16`).
    Source: https://github.com/huggingface/accelerate/pull/1036
    """
    if case.value("loop.scaler_dtype") == "bf16":
        yield Finding(
            f"a GradScaler was used with bfloat16 in {case.value('loop.scaler')['steps']} steps",
            (Evidence("loop.scaler", "bf16", source="autocast state and parameters"),),
            why="bfloat16 gradients do not underflow",
            fix="drop the GradScaler",
        )
