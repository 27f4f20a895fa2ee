"""DIST025: the range of comm hooks."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge.dist_steps import Row, case, covers, doubt, findings, row


def _wanted(row: Row) -> bool:
    return bool(row["phase"] == "ddp" and "beyond" in row["name"])


def _what(row: Row) -> str:
    return f"gradients are lost under {row['form']}"


def _row(state: str = "right", why: str = "") -> Event:
    return row(state, phase="ddp", form="DDP", name="beyond", dtype="", why=why)


@check(
    "DIST025",
    Severity.WARNING,
    when=("dist.ddp",),
    needs=("dist.ddp",),
    good=(case("ddp", _row()),),
    bad=(case("ddp", _row("wrong", "rank 1 is missing in it")), case("ddp", _row("wrong"))),
    covers=covers(_wanted, "hooks"),
    doubt=doubt(_wanted),
)
def hook_range(case: Case) -> Iterator[Finding]:
    """Gradients beyond the range of a compressing hook are not lost in silence.

    The fp16 hook is given gradients that fp32 holds and fp16 does not.

    Why: they become inf on the way, and the update makes the weights NaN.
    Fix: use the bf16 hook, or clip before the reduction; the hook itself checks nothing.
    Source: torch.distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_hook
    """
    yield from findings(
        case,
        _wanted,
        _what,
        "the hook checks nothing",
        "use the bf16 hook, or none, where gradients can be so large",
    )
