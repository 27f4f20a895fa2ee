"""REF015: batches that are not those of the uninterrupted run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.numerics_resume import POINT, covers

_DATA: dict[str, Any] = {
    "of": 8,
    "differ": 0,
    "first": None,
    "shape": [8, 4],
    "loaders": [{"sampler": "RandomSampler", "own": False}],
    "explained": False,
}


def _doubt(case: Case) -> str:
    told = case.value("resume.data")
    if told["explained"]:
        return "the batches differ, and the random state that they are drawn with does (REF016)"
    return ""


@check(
    "REF015",
    Severity.ERROR,
    needs=("resume.point", "resume.data"),
    covers=covers,
    doubt=_doubt,
    good=(Case.of(resume__point=POINT, resume__data=_DATA),),
    bad=(Case.of(resume__point=POINT, resume__data={**_DATA, "differ": 8, "first": 0}),),
)
def sampler(case: Case) -> Iterator[Finding]:
    """The resumed run is given the batches that the uninterrupted one was given.

    What the forward of each step reads and did not make, by digest. Where the difference can come
    of the random state alone, that is told of (REF016), and the place in the data is unproven.

    Why: data seen twice or never, epoch after epoch: the model is trained on another set.
    Fix: save the epoch and the number of batches, call `set_epoch`, and pass over what was seen.
    Source: https://docs.pytorch.org/docs/stable/data.html (DistributedSampler.set_epoch).
    """
    told = case.value("resume.data")
    if not told["differ"] or told["explained"]:
        return
    kinds = ", ".join(sorted({one["sampler"] for one in told["loaders"]}))
    when = "the first update" if told["first"] == 0 else f"update {told['first']}"
    yield Finding(
        f"the place in the data was not restored: {told['differ']} of {told['of']} updates were "
        f"given other tensors, from {when} after the resumption on"
        + (f" (sampler: {kinds})" if kinds else ""),
        (Evidence("updates with other data", told["differ"], "updates", "SHA-1"),),
        claimed="a resumed run goes on in the data where the stopped one was",
        fix="save epoch and batch number, call set_epoch, and pass over what was seen",
    )
