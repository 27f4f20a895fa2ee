"""REF010: a resumed run that leaves the uninterrupted one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.numerics_resume import POINT, broken, covers

_SAME: dict[str, Any] = {"of": 8, "weights": None, "rates": None, "gradients": 0, "names": []}


def _causes(case: Case) -> list[str]:
    """The kinds of state that were not restored, by their checks."""
    kinds = {"weights": 11, "optimizer": 12, "scheduler": 13, "scaler": 14}
    told = [
        f"REF0{number}"
        for kind, number in kinds.items()
        if broken(case.known(f"resume.{kind}", {"differ": 0, "absent": 0}))
    ]
    told += ["REF015"] if case.known("resume.data", {"differ": 0})["differ"] else []
    return told + (["REF016"] if case.known("resume.random", {"wrong": []})["wrong"] else [])


@check(
    "REF010",
    Severity.ERROR,
    needs=("resume.point", "resume.continued"),
    covers=covers,
    good=(Case.of(resume__point=POINT, resume__continued=_SAME),),
    bad=(
        Case.of(resume__point=POINT, resume__continued={**_SAME, "weights": 1}),
        Case.of(
            resume__point=POINT,
            resume__continued={**_SAME, "weights": 1, "gradients": 3, "names": ["fc.weight"]},
        ),
    ),
)
def resumed(case: Case) -> Iterator[Finding]:
    """Save, load, continue equals the uninterrupted run.

    The weights before each update after the resumption, bit for bit with those of a run that was
    never stopped. Which kind of state is to blame is told by REF011 to REF016; where none is, it
    is something else that the script keeps: gradients of a started accumulation, a hidden state
    that is carried on, a counter.

    Why: what cannot be resumed cannot be moved to another machine either.
    Fix: see the other findings; where there is none, look for what the loop keeps in variables.
    Source: three runs of the script: stopped, resumed, and never stopped.
    """
    told = case.value("resume.continued")
    if told["weights"] is None and told["rates"] is None and not told["gradients"]:
        return
    causes = _causes(case)
    after = told["weights"] if told["weights"] is not None else told["rates"]
    where = "no update" if after is None else f"update {after}"
    message = f"the resumed run leaves the uninterrupted one before {where} after the resumption"
    if after is None:
        message = "the gradients of the first update after the resumption are other ones"
    if not causes:
        of = f", first {told['names'][0]}" if told["names"] else ""
        message += (
            f"; all six kinds of state were restored: {told['gradients']} gradients of the first "
            f"update differ{of}"
            if told["gradients"]
            else "; all six kinds of state were restored, so something else was not"
        )
    yield Finding(
        message,
        (Evidence("updates compared", told["of"], "updates", "SHA-1 of the weights"),),
        claimed="save, load, continue equals the uninterrupted run",
        why=f"see {', '.join(causes)}" if causes else "",
        fix="" if causes else "look for gradients, hidden states and counters that the loop keeps",
    )
