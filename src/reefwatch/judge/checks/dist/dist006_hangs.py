"""DIST006: every step ends."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place, Severity
from reefwatch.core.record import Case

_TRIED = {
    "steps": 9,
    "answered": 9,
    "ended": "",
    "backend": "gloo",
    "level": "quick",
    "world": 2,
    "seed": 1,
}
_HANG = {
    "step": 3,
    "name": "reduce",
    "kind": "hang",
    "words": "rank 1 did not come",
    "ranks": [1],
    "at": "a.py:3 f",
    "lost": [],
}


def _covers(case: Case) -> tuple[Coverage, ...]:
    tried = case.value("dist.tried")
    return (Coverage("steps", tried["answered"], tried["steps"]),)


def _doubt(case: Case) -> str:
    ended = case.value("dist.tried")["ended"]
    return f"not all steps were run: {ended}" if ended else ""


@check(
    "DIST006",
    Severity.ERROR,
    needs=("dist.trouble", "dist.tried"),
    good=(Case.of(dist__trouble=[], dist__tried=_TRIED),),
    bad=(
        Case.of(dist__trouble=[_HANG], dist__tried=_TRIED),
        Case.of(dist__trouble=[{**_HANG, "kind": "lost"}], dist__tried=_TRIED),
    ),
    covers=_covers,
    doubt=_doubt,
)
def hangs(case: Case) -> Iterator[Finding]:
    """Every collective ends, on every rank, in the same way.

    Each step has a deadline. When it is over, every rank says where it stands; the step that hung
    is left behind and the others are run in a new process group.

    Why: a job that hangs costs its whole allocation, and the backend's own time-out names nobody.
    Fix: look at the rank that is named first; `NCCL_DEBUG=INFO` there tells its transport.
    Source: https://github.com/pytorch/pytorch/issues/97191 (the backend's watchdog does not end
    the job)
    """
    for told in case.value("dist.trouble"):
        words = "a process was lost" if told["kind"] == "lost" else "it did not end"
        yield Finding(
            f"{words}: {told['words']}",
            (Evidence("dist.trouble", dict(told), source="the agents of the ranks"),),
            Place(op=str(told["name"]), ranks=tuple(map(int, told["ranks"]))),
            why="the ranks that wait stand still until somebody ends them",
            fix="look at the rank that is named first",
        )
    for event in case.rows("dist.step"):
        row = event.data
        if row["state"] == "error" and row.get("others"):
            yield Finding(
                f"{row['phase']} {row['name']} failed on some ranks only "
                f"({row.get('others', '')}): {row['detail']}",
                (Evidence("dist.step", dict(row), source="each rank's own word"),),
                Place(op=str(row.get("form") or row["name"])),
                why="the next collective is then out of step",
                fix="look at the rank that raised",
            )
