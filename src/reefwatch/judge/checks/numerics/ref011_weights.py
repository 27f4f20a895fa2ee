"""REF011: weights that are not those of the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.numerics_resume import POINT, covers, lost, not_restored, state


@check(
    "REF011",
    Severity.ERROR,
    needs=("resume.point", "resume.weights"),
    covers=covers,
    good=(Case.of(resume__point=POINT, resume__weights=state()),),
    bad=(
        Case.of(
            resume__point=POINT,
            resume__weights=lost("Net.fc.weight", "a tensor of norm 3.1", "a tensor of norm 2.9"),
        ),
    ),
)
def weights(case: Case) -> Iterator[Finding]:
    """The resumed run has the weights and buffers of the stopped one.

    Parameters and persistent buffers of every module, when the first update after the resumption
    begins, bit for bit.

    Why: without them the training begins anew, or goes on from another model.
    Fix: save and load `model.state_dict()`; averaged copies and buffers count too.
    Source: https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html.
    """
    found = not_restored(
        case,
        "weights",
        "the weights were",
        "load model.state_dict() before training goes on, averaged copies and buffers too",
    )
    if found is not None:
        yield found
