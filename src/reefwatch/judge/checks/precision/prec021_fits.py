"""PREC021: the run fits into the memory that was named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence, Grade
from reefwatch.core.finding import Finding, Place, Severity
from reefwatch.core.record import Case
from reefwatch.judge.precision_claims import mib

_G = 2**30


def _case(limit: int | None, allocated: int | None = None) -> Case:
    asked: dict[str, Any] = {
        "saved": {},
        "state": {"param": {"f32": _G}, "grad": {"f32": _G}, "optimizer": {"f32": 2 * _G}},
        "peak": {"bytes": 8 * _G, "phase": "backward", "at": []},
    }
    if allocated:
        asked["allocated"] = allocated
    variants = {"variants": {"asked": asked}, "refused": {}, "rounds": 1}
    return Case.of(precision__fits=limit, precision__variants=variants)


@check(
    "PREC021",
    Severity.ERROR,
    needs=("precision.fits", "precision.variants"),
    when=("precision.fits",),
    good=(_case(16 * _G), _case(16 * _G, 13 * _G)),
    bad=(_case(8 * _G), _case(16 * _G, 17 * _G)),
)
def fits(case: Case) -> Iterator[Finding]:
    """A step as asked fits into the memory that `--fits` names.

    On a GPU the peak is the allocator's own. Elsewhere it is counted: parameters, gradients and
    optimizer state, and the most bytes of tensors that a step held at once; that is a prediction,
    without what the allocator loses by rounding and what libraries keep as workspace.

    Why: the peak lies where the backward begins, not where the parameters are counted.
    Fix: the places that hold the most at the peak are told with the report; checkpointing, a
    smaller batch, or casting back what is kept in fp32 lowers it.
    Source: https://docs.pytorch.org/docs/stable/torch_cuda_memory.html
    """
    limit = int(case.value("precision.fits"))
    asked: Mapping[str, Any] = case.value("precision.variants")["variants"]["asked"]
    counted = sum(sum(part.values()) for part in asked["state"].values()) + asked["peak"]["bytes"]
    measured = "allocated" in asked
    peak = int(asked["allocated"]) if measured else int(counted)
    if peak <= limit:
        return
    most = [row for row in asked["peak"]["at"][:1] if isinstance(row, Mapping)]
    place = Place(most[0]["module"], "", most[0]["file"], most[0]["line"]) if most else Place()
    grade = Grade.MEASURED if measured else Grade.PREDICTED
    source = "torch.cuda.max_memory_allocated" if measured else "counted by storage"
    yield Finding(
        f"a step needs {mib(peak)}, {mib(peak - limit)} more than the {mib(limit)} named",
        (Evidence("peak", peak, "bytes", source, grade),),
        place,
        claimed=f"fits into {mib(limit)}, by --fits",
        fix="start where the most is held at the peak",
    )
