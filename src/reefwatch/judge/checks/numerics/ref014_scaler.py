"""REF014: gradient scale that was not restored."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.numerics_resume import POINT, covers, lost, not_restored, state


@check(
    "REF014",
    Severity.ERROR,
    when=("resume.has_scaler",),
    needs=("resume.point", "resume.scaler"),
    covers=covers,
    good=(Case.of(resume__has_scaler=True, resume__point=POINT, resume__scaler=state()),),
    bad=(
        Case.of(
            resume__has_scaler=True,
            resume__point=POINT,
            resume__scaler=lost("GradScaler.scale", "1024.0", "65536.0"),
        ),
    ),
)
def scaler(case: Case) -> Iterator[Finding]:
    """The resumed run has the gradient scale of the stopped one.

    Scale and growth of each GradScaler that is on.

    Why: a scale that begins at its default again skips updates until it has come down.
    Fix: save and load `scaler.state_dict()`.
    Source: https://docs.pytorch.org/docs/stable/notes/amp_examples.html (saving and resuming).
    """
    found = not_restored(
        case,
        "scaler",
        "the GradScaler was",
        "load scaler.state_dict()",
    )
    if found is not None:
        yield found
