"""PERF007: the spread of the step time."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.finding import Coverage, Finding, Severity
from reefwatch.core.record import Case

_RATIO = Tolerance(
    2.0,
    "medians",
    "one step in twenty at twice the median costs a twentieth of the run; batches of different "
    "length stay below",
)


def _spread(ratio: float) -> Case:
    value = {"median": 0.1, "p95": 0.1 * ratio, "ratio": ratio, "steps": 400}
    return Case.of(perf__gpu=True, perf__spread=value)


def _covers(case: Case) -> tuple[Coverage, ...]:
    steps = case.known("perf.steps")
    return (Coverage("steps", case.value("perf.spread")["steps"], steps["count"]),) if steps else ()


@check(
    "PERF007",
    Severity.WARNING,
    when=("perf.gpu",),
    needs=("perf.spread",),
    good=(_spread(1.05), _spread(1.9)),
    bad=(_spread(2.5), _spread(20.0)),
    covers=_covers,
)
def spread(case: Case) -> Iterator[Finding]:
    """The steps take about the same time.

    Why: when one step in twenty takes twice the median or more, something interrupts the run:
    recompilation for each new shape, garbage collection, another job on the card or the
    processor, a slow disk, logging or checkpoints within the step.
    Fix: look at the chart of step times: peaks at equal distances are checkpoints or evaluation,
    peaks with new shapes are recompilation (`TORCH_LOGS=recompiles`), others come from outside.
    Source: DDSketch (VLDB 2019) for the quantiles of long runs.
    """
    value = case.value("perf.spread")
    if _RATIO.exceeded_by(value["ratio"]):
        yield Finding(
            f"the slowest twentieth of {value['steps']} steps takes {value['p95']:.3g} s or more, "
            f"{value['ratio']:.1f} times the median of {value['median']:.3g} s",
            (case.evidence("perf.spread"),),
            fix="look at the chart of step times for when it happens",
        )
