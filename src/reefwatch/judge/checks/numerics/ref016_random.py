"""REF016: random state that was not restored."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.numerics_resume import POINT, covers

_RANDOM = {"of": 3, "generators": {}, "wrong": [], "matters": False, "drawn": None}


@check(
    "REF016",
    Severity.ERROR,
    needs=("resume.point", "resume.random"),
    covers=covers,
    good=(Case.of(resume__point=POINT, resume__random=_RANDOM),),
    bad=(
        Case.of(
            resume__point=POINT,
            resume__random={**_RANDOM, "wrong": ["torch"], "matters": True, "drawn": 0},
        ),
    ),
)
def random(case: Case) -> Iterator[Finding]:
    """The resumed run draws the random numbers that the uninterrupted one draws.

    The generators of torch, its devices, numpy and python. One that was not restored is told of
    when it is drawn from and masks or batches differ in the updates that were compared; where none
    does it makes no difference.

    Why: another dropout and another order of data: no resumed run can be compared with any other.
    Fix: save and load `torch.get_rng_state()`, `torch.cuda.get_rng_state_all()`, and those of numpy
    and random.
    Source: https://docs.pytorch.org/docs/stable/notes/randomness.html.
    """
    told = case.value("resume.random")
    if not told["wrong"]:
        return
    names = ", ".join(told["wrong"])
    what = "batches differ" if told["drawn"] is None else "what the forward draws differs"
    yield Finding(
        f"the random state was not restored: {names}; {what} from that of the uninterrupted run",
        (Evidence("generators not restored", len(told["wrong"]), "generators", "SHA-1"),),
        claimed="a resumed run draws the numbers that would have come next",
        fix="save and load the state of these generators with the checkpoint",
        names=tuple(told["wrong"]),
    )
