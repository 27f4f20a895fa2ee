"""All steps of the experiment, in order, the same on every rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.experiments.dist import bandwidth, checkpoints, matrix, more, training, wrapped
from reefwatch.experiments.dist.steps import Step

_NEEDS = {
    "subgroups": "groups of some ranks need 4 ranks",
    "large": "counts beyond 2^31 are of the full level",
    "bandwidth": "--bench was not given",
}


def steps(plan: dict[str, Any]) -> Iterator[Step]:
    """The steps that the plan asks for."""
    wanted = plan.get("phases")
    for step in _all(plan):
        if not wanted or step.phase in wanted:
            yield step


def _all(plan: dict[str, Any]) -> Iterator[Step]:
    level, world = plan["level"], plan["world"]
    yield from matrix.steps(level, world, plan)
    some = list(more.steps(level, plan))
    yield from (step for step in some if step.phase in ("concurrency", "replay"))
    yield from wrapped.steps(level, world, plan)
    yield from training.steps(level)
    yield from checkpoints.steps(level, world)
    if plan.get("bench") or "bandwidth" in (plan.get("phases") or ()):
        yield from bandwidth.steps(level, world, plan["device"])
    # the last ones: they may spoil what comes after
    yield from (step for step in some if step.phase in ("large", "mismatch"))


def left_out(phase: str, plan: dict[str, Any]) -> str:
    """Why a phase has no step."""
    if plan.get("phases") and phase not in plan["phases"]:
        return f"{phase} was not asked for"
    return _NEEDS.get(phase, f"{phase} has no case here")
