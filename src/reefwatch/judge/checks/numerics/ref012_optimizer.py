"""REF012: optimizer state that was not restored."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.numerics_resume import POINT, covers, lost, not_restored, state


@check(
    "REF012",
    Severity.ERROR,
    needs=("resume.point", "resume.optimizer"),
    covers=covers,
    good=(Case.of(resume__point=POINT, resume__optimizer=state()),),
    bad=(
        Case.of(
            resume__point=POINT,
            resume__optimizer=lost("Adam.fc.weight.exp_avg", "a tensor of norm 0.1", "nothing"),
        ),
    ),
)
def optimizer(case: Case) -> Iterator[Finding]:
    """The resumed run has the optimizer state of the stopped one.

    Momentum, moments, step numbers and the arguments of each group. The learning rate is told of
    with the scheduler (REF013), unless the scheduler is right.

    Why: momentum that begins at zero makes a jump of the loss that looks like bad luck.
    Fix: save and load `optimizer.state_dict()`, over the parameters of the loaded model.
    Source: https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html.
    """
    found = not_restored(
        case,
        "optimizer",
        "the optimizer was",
        "load optimizer.state_dict() after the optimizer is built over the loaded parameters",
    )
    if found is not None:
        yield found
