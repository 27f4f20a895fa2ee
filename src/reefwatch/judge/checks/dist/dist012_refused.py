"""DIST012: what a refused call leaves behind."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place, Severity
from reefwatch.core.record import Case
from reefwatch.judge.dist_steps import Row, case, row, rows


def _wanted(row: Row) -> bool:
    return row.get("left") is not None and row["phase"] == "matrix"


_LEFT = "later calls of the group return without having run"


def _covers(case: Case) -> tuple[Coverage, ...]:
    some = rows(case, _wanted)
    return (Coverage("refused calls", len(some), len(some)),) if some else ()


def _doubt(case: Case) -> str:
    return "" if rows(case, _wanted) else "no call was refused"


@check(
    "DIST012",
    Severity.WARNING,
    when=("dist.matrix",),
    needs=("dist.matrix",),
    good=(case("matrix", row("unsupported", left="")),),
    bad=(
        case("matrix", row("unsupported", form="batch_isend_irecv", left=_LEFT)),
        case("matrix", row("unsupported", left=_LEFT), row("unsupported", name="b", left="")),
    ),
    covers=_covers,
    doubt=_doubt,
)
def refused(case: Case) -> Iterator[Finding]:
    """A call that was refused leaves the group as it was.

    After each call that raised, a sum of three numbers is asked of the same group. Where it is
    wrong, the coalescing that torch had begun and not ended is ended, and the sum asked again.

    Why: a program that catches the error and goes on computes with sums that were never made.
    Fix: make a new process group after an error, or end the program.
    Source: torch/distributed/distributed_c10d.py (`_coalescing_manager` ends nothing when its body
    raises)
    """
    alike: dict[tuple[str, str, str], list[Row]] = {}
    for told in rows(case, _wanted):
        if told["left"]:
            key = (str(told["form"]), str(told.get("layout") or ""), str(told["left"]))
            alike.setdefault(key, []).append(told)
    for (form, layout, left), some in alike.items():
        kinds = ", ".join(dict.fromkeys(str(told["dtype"]) for told in some[:6]))
        what = f"{form} of {layout} tensors" if layout else form
        yield Finding(
            f"after {what} was refused ({kinds}), {left}",
            (Evidence("dist.step", dict(some[0]), source="a sum that was asked afterwards"),),
            Place(op=form),
            why=f"{some[0]['detail']}; who catches it computes on with what was never reduced",
            fix="make a new process group after an error, or end the program",
        )
