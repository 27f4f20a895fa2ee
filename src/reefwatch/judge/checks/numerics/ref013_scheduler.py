"""REF013: scheduler or learning rate that was not restored."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.numerics_resume import POINT, covers, lost, not_restored, state


@check(
    "REF013",
    Severity.ERROR,
    when=("resume.has_scheduler",),
    needs=("resume.point", "resume.scheduler"),
    covers=covers,
    good=(Case.of(resume__has_scheduler=True, resume__point=POINT, resume__scheduler=state()),),
    bad=(
        Case.of(
            resume__has_scheduler=True,
            resume__point=POINT,
            resume__scheduler=lost("StepLR.last_epoch", "3", "0"),
        ),
    ),
)
def scheduler(case: Case) -> Iterator[Finding]:
    """The resumed run has the scheduler and the learning rate of the stopped one.

    What each scheduler counts, and the rate of each group when the first update begins.

    Why: a warm-up that begins again, or a decay that never comes, trains to a worse model.
    Fix: save and load `scheduler.state_dict()`, or compute the rate from a step that is saved.
    Source: https://docs.pytorch.org/docs/stable/optim.html (how to adjust learning rate).
    """
    found = not_restored(
        case,
        "scheduler",
        "the scheduler was",
        "load scheduler.state_dict(), or compute the rate from a step number that is saved",
    )
    if found is not None:
        yield found
