"""NUM001: an element farther from the truth than rounding explains."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.numerics_truth import ASKED, by_op, covers, doubt, finding, row, truth

LIMIT = Tolerance(
    1.0,
    "of what rounding may do",
    "each element has its own bound: rigorous for products and sums, units of the last place for "
    "functions, the change under moved inputs for the rest (docs/numerics.md)",
)


@check(
    "NUM001",
    Severity.ERROR,
    when=(ASKED,),
    needs=("numerics.truth",),
    covers=covers,
    doubt=doubt,
    good=(
        Case.of(row(), numerics__asked=True, numerics__truth=truth()),
        Case.of(row(error=1.0), numerics__asked=True, numerics__truth=truth()),
    ),
    bad=(
        Case.of(row(error=1.2, wrong=3), numerics__asked=True, numerics__truth=truth()),
        Case.of(row(error=float("inf"), wrong=1), numerics__asked=True, numerics__truth=truth()),
    ),
)
def elements(case: Case) -> Iterator[Finding]:
    """Each element that was computed again is as near to the truth as rounding allows.

    The truth is the same op in float64 on the CPU, by a formula of this project's own where there
    is one, from the inputs that the op had in the run.

    Why: a kernel that is wrong runs to the end, and the loss mostly still falls.
    Fix: see the op, the shape and the element; try another backend for this op, or another version.
    Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., chapter 3; Higham and
    Mary, SIAM J. Sci. Comput. 41(5), 2019.
    """
    rows = [event.data for event in case.rows("numerics.op")]
    wrong = sorted(
        (one for one in rows if LIMIT.exceeded_by(one["error"])), key=lambda one: -one["error"]
    )
    for group in by_op(wrong):
        one = group[0]
        at = ", ".join(map(str, one["index"]))
        off = (
            "differs"
            if one["rule"] == "exact"
            else f"is {one['error']:.3g} times farther off than rounding allows"
        )
        yield finding(
            group,
            f"{one['op']} in {one['dtype']}: element [{at}] is {one['got']:.9g} and should be "
            f"{one['truth']:.9g}; it {off} ({one['wrong']} of {one['elements']} elements)",
            Evidence("error", one["error"], LIMIT.unit, f"{one['witness']} in float64"),
            Evidence("wrong elements", one["wrong"], "elements"),
            why=f"rule: {one['rule']}; the tolerance that would have passed is {one['error']:.3g} "
            "times the bound",
        )
