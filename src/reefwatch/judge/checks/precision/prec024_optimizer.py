"""PREC024: the optimizer updates all parameters at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case

FEW = Tolerance(
    100,
    "ops an update",
    "a hundred launches take about a millisecond of host time, what a step can mostly hide",
)


def _case(ops: dict[str, float], **held: Any) -> Case:
    adam: dict[str, Any] = {
        "params": 300,
        "trained": 300,
        "asked": {"foreach": None, "fused": None},
        "devices": ["cuda"],
        "dtypes": ["f32"],
        "subclasses": 0,
        "sparse": 0,
    }
    return Case.of(precision__optimizer={"ops": ops, "optimizers": {"AdamW": adam | held}})


@check(
    "PREC024",
    Severity.WARNING,
    needs=("precision.optimizer",),
    when=("precision.optimizer",),
    good=(_case({"fused": 1.0}), _case({"foreach": 14.0, "loop": 4.0}), _case({"loop": 60.0})),
    bad=(
        _case({"loop": 3000.0}, subclasses=300),
        _case({"loop": 3000.0, "foreach": 2.0}, asked={"foreach": False}),
    ),
)
def at_once(case: Case) -> Iterator[Finding]:
    """On a GPU the optimizer takes its foreach or fused form.

    Counts the ops of an update that go over all parameters at once and those that go over one each.

    Why: the loop over parameters launches thousands of kernels of some microseconds each. torch
    falls back to it where a parameter is a tensor subclass, lies on another device or has a sparse
    gradient, and says nothing.
    Fix: `fused=True` or `foreach=True` raises where it cannot be had, and says why.
    Source: https://docs.pytorch.org/docs/stable/optim.html#algorithms
    """
    told: Mapping[str, Any] = case.value("precision.optimizer")
    single = told["ops"].get("loop", 0.0)
    if not FEW.exceeded_by(single) or single <= sum(told["ops"].values()) / 2:
        return
    for kind, held in told["optimizers"].items():
        yield Finding(
            f"{kind} goes over {held['trained']} parameters one by one: {single:,.0f} ops a step",
            (Evidence("ops an update", single, "ops", "dispatch"),),
            why=_why(held),
            cost="launches: a few microseconds of host time each",
            fix="pass fused=True, or foreach=True",
        )


def _why(held: Mapping[str, Any]) -> str:
    if held["asked"].get("foreach") is False and not held["asked"].get("fused"):
        return "foreach=False was asked for"
    if held["subclasses"]:
        return f"{held['subclasses']} parameters are tensor subclasses"
    if held["sparse"]:
        return f"{held['sparse']} gradients are sparse"
    if len(held["devices"]) > 1:
        return f"parameters lie on {' and '.join(held['devices'])}"
    return "torch chose the loop; why was not seen"
