"""DIST004: guards around buffers."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Place, Severity
from reefwatch.core.record import Case
from reefwatch.judge.dist_steps import Row, case, covers, doubt, row, rows


def _wanted(row: Row) -> bool:
    return "form" in row and "layout" not in row


@check(
    "DIST004",
    Severity.ERROR,
    when=("dist.matrix",),
    needs=("dist.matrix",),
    good=(case("matrix", row()),),
    bad=(
        case("matrix", row("wrong", outside="3 elements outside of the output, at -3 to -1")),
        case("matrix", row("wrong", name="b", form="all_reduce", outside="1 elements outside")),
    ),
    covers=covers(_wanted, "cases"),
    doubt=doubt(_wanted),
)
def guards(case: Case) -> Iterator[Finding]:
    """Collectives write inside the given tensors only, and leave their inputs alone.

    Each buffer lies between guard elements, which are compared after each case.

    Why: what lies beside a slice of a larger buffer (a bucket, a KV cache) is changed in silence.
    Fix: update the backend's library or torch.
    Source: https://github.com/NVIDIA/nccl-tests (its checks cover the result buffer alone)
    """
    for told in rows(case, _wanted):
        if told["state"] == "wrong" and told.get("outside"):
            yield Finding(
                f"{told['form']} {told['dtype']} wrote {told['outside']}",
                (Evidence("dist.step", dict(told), source="guard elements"),),
                Place(op=str(told["form"])),
                why="memory beside the tensor belongs to something else",
                fix="update the backend's library or torch",
            )
