"""An op that was wrong, run again from the same inputs: on the same device, then on the CPU.

Wrong again in the same bits: it is the kernel (or what it was built from). Right now: it was of the
moment, a bit that flipped or a race. Right on the CPU in the same dtype: it is this device's.
Source: the rerun of Megatron-LM's rerun state machine, which tells transient from persistent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from reefwatch.gather.dtypes import short
from reefwatch.gather.numerics.formula import Inputs
from reefwatch.gather.numerics.plans import Plan, Plans
from reefwatch.gather.numerics.verdicts import measure
from reefwatch.measure.rounding import UNIT

MOST = 24
"""Wrong ops of a run that are run again."""
SLOPE = 8.0
"""Deviations of a slice, and 1 part of the bound: beyond, a row is wrong (NUM002, NUM001)."""
RIGHT, SAME, OTHER, FAILED = "right", "same", "other", "failed"

Judge = Callable[[Inputs], "list[Any] | None"]


def wrong(row: dict[str, Any]) -> bool:
    """True for a row that the checks will call broken."""
    return not row["error"] <= 1 or row.get("deviations", 0.0) > SLOPE


class Cause:
    """Runs wrong ops again. `left` counts down."""

    def __init__(self, torch: Any, plans: Plans) -> None:
        self._torch, self._plans = torch, plans
        self.left = MOST

    def of(self, func: Any, plan: Plan, op: Inputs, judge: Judge) -> dict[str, str]:
        """`{"again": right, same, other or failed, "elsewhere": right, wrong, failed or ""}`."""
        self.left -= 1
        told = {"again": FAILED, "elsewhere": ""}
        try:
            outs = self._run(func, plan, op.args, op.kwargs)
            alike = all(self._equal(a, b) for a, b in zip(outs, op.outs, strict=True))
            told["again"] = SAME if alike else RIGHT if self._holds(op, outs, judge) else OTHER
        except Exception:
            return told
        if any(out is not None and out.device.type != "cpu" for out in op.outs):
            told["elsewhere"] = self._on_cpu(func, plan, op, judge)
        return told

    def _on_cpu(self, func: Any, plan: Plan, op: Inputs, judge: Judge) -> str:
        try:
            args, kwargs = self._moved(list(op.args)), self._moved(dict(op.kwargs))
            outs = self._run(func, plan, args, kwargs)
            return RIGHT if self._holds(op, outs, judge) else "wrong"
        except Exception:  # no such kernel on the CPU
            return FAILED

    def _run(self, func: Any, plan: Plan, args: Any, kwargs: Any) -> list[Any]:
        args, kwargs = self._plans.copied(plan, args, kwargs)
        out = func(*args, **kwargs)
        return self._plans.outputs(plan, _Call(args, kwargs, out))

    def _holds(self, op: Inputs, outs: list[Any], judge: Judge) -> bool:
        made = replace(op, outs=outs)
        for one in judge(made) or ():
            out = outs[one.output] if one.output < len(outs) else outs[0]
            kind = short(out.dtype)
            if wrong(measure(op.xp, one, kind if kind in UNIT else "f64")):
                return False
        return True

    def _equal(self, one: Any, two: Any) -> bool:
        if one is None or two is None:
            return one is two
        same = one == two
        if one.is_floating_point():
            same = same | (one.isnan() & two.isnan())
        return bool(one.shape == two.shape and same.all())

    def _moved(self, value: Any) -> Any:
        if isinstance(value, self._torch.Tensor):
            return value.detach().cpu()
        if isinstance(value, self._torch.device):
            return self._torch.device("cpu")
        if isinstance(value, dict):
            return {name: self._moved(one) for name, one in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self._moved(one) for one in value)
        return value


class _Call:
    """What `Plans.outputs` looks at."""

    def __init__(self, args: Any, kwargs: Any, out: Any) -> None:
        self.args, self.kwargs, self.out = args, kwargs, out
