"""REF001: other ops, dtypes or shapes than the reference has."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.numerics_reference import FOLLOWS, covers, place, reference, row, rows

MOST = 4


@check(
    "REF001",
    Severity.ERROR,
    when=(FOLLOWS,),
    needs=("numerics.reference",),
    covers=covers,
    good=(Case.of(row(), numerics__follows=True, numerics__reference=reference()),),
    bad=(
        Case.of(
            row(matched=False, problem=""),
            numerics__follows=True,
            numerics__reference=reference(same_machine=True),
        ),
        Case.of(
            row(problem="dtype bf16 became f32"),
            numerics__follows=True,
            numerics__reference=reference(same_machine=True),
        ),
    ),
)
def structure(case: Case) -> Iterator[Finding]:
    """The run makes the same ops of the same dtypes and shapes as the reference.

    Compares what each module calls, forward and backward, in the first step. A row without a
    counterpart is a finding, never a pass. Between different machines the lists of ops differ
    (attention, fused cells and optimizers, autocast's policy): there only shapes and which
    parameters get a gradient are compared, and the coverage says how many rows were matched.

    Why: an op in another dtype, one too many (a hook), or one that is missing (a frozen layer, an
    update that was skipped) explains a difference better than any number.
    Fix: see the line; look for a cast, a hook, a flag or a version that differs.
    Source: the categorical rules of numerical comparison tools; rows are matched by module path.
    """
    told = rows(case, first=True)
    same = case.value("numerics.reference")["same_machine"]
    odd = [one for one in told if one["problem"] or not one["matched"]]
    if not same:
        odd = [one for one in odd if one["phase"] == "gradient" or "shape" in one["problem"]]
    groups: dict[str, list[object]] = {}
    for one in sorted(odd, key=lambda one: one["phase"] != "gradient"):
        groups.setdefault(_words(one), []).append(one)
    for number, (words, group) in enumerate(groups.items()):
        if number >= MOST:
            break
        first: dict[str, object] = group[0]  # type: ignore[assignment]
        where = first["module"] or first["op"]
        yield Finding(
            f"{words} at {where} ({first['op']}, {first['phase']})",
            (Evidence("rows that differ", len(odd), "rows"),),
            place(first),
            claimed="this run makes the ops of the reference",
            fix="look for a cast, a hook, a flag or a version that differs at this line",
        )


def _words(one: dict[str, object]) -> str:
    if one["phase"] == "gradient" and one["problem"] in ("missing", "no gradient"):
        return "no gradient, where the reference has one,"
    if one["problem"] == "missing":
        return "an op of the reference is missing"
    if not one["matched"]:
        return "an op that the reference has not"
    return str(one["problem"])
