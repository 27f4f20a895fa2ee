"""NUM002: a slice that is off by a factor, each element within its bound."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.numerics_truth import ASKED, by_op, covers, doubt, finding, row, truth

LIMIT = Tolerance(
    8.0,
    "standard deviations",
    "errors of rounding average out: by Hoeffding's inequality a slope is this far from 1 by "
    "chance in fewer than one of 10^13 slices",
)


def _doubt(case: Case) -> str:
    if any("deviations" in event.data for event in case.rows("numerics.op")):
        return doubt(case)
    return "no output with slices was judged"


@check(
    "NUM002",
    Severity.ERROR,
    when=(ASKED,),
    needs=("numerics.truth",),
    covers=covers,
    doubt=_doubt,
    good=(
        Case.of(
            row(slice=3, axis=1, slope=1.0001, deviations=2.0),
            numerics__asked=True,
            numerics__truth=truth(),
        ),
    ),
    bad=(
        Case.of(
            row(slice=3, axis=1, slope=1.01, deviations=40.0),
            numerics__asked=True,
            numerics__truth=truth(),
        ),
    ),
)
def slices(case: Case) -> Iterator[Finding]:
    """Each channel, head or row follows the truth with slope 1.

    Looks at slices one by one: the least-squares slope of what the run has on the truth, against
    what rounding makes of it.

    Why: one channel of 256 that is 1 % off is invisible in norms and cosines of the whole tensor.
    Fix: see the slice; a slope such as 1.01 or 0.5 says by what factor its kernel is wrong.
    Source: ordinary least squares; Hoeffding, J. Am. Stat. Assoc. 58, 1963.
    """
    rows = [event.data for event in case.rows("numerics.op") if "deviations" in event.data]
    wrong = [one for one in rows if LIMIT.exceeded_by(one["deviations"]) and one["error"] <= 1]
    for group in by_op(sorted(wrong, key=lambda one: -one["deviations"])):
        one = group[0]
        yield finding(
            group,
            f"{one['op']} in {one['dtype']}: slice {one['slice']} of axis {one['axis']} is "
            f"{one['slope']:.6g} times what it should be",
            Evidence("slope", one["slope"], "", f"{one['witness']} in float64"),
            Evidence("deviations", one["deviations"], LIMIT.unit),
            why="each element is within its bound, all of them together are not",
        )
