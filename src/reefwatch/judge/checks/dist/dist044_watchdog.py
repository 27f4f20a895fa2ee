"""DIST044: no hang."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence, Grade
from reefwatch.core.finding import Finding, Place, Severity
from reefwatch.core.record import Case

_HANG = {
    "rank": 0,
    "step": 3,
    "issued": 9,
    "at": "train.py:30",
    "seconds": 61.0,
    "words": "rank 1 never came to collective 9",
    "last": None,
    "told": [{"rank": 0, "inside": True, "at": "train.py:30"}],
    "resumed": False,
}


@check(
    "DIST044",
    Severity.ERROR,
    when=("ranks.several",),
    needs=("ranks.hangs",),
    good=(
        Case.of(
            ranks__several=True,
            ranks__hangs={"allowed": 60.0, "hangs": [], "unended": []},
        ),
    ),
    bad=(
        Case.of(
            ranks__several=True, ranks__hangs={"allowed": 60.0, "hangs": [_HANG], "unended": [0, 1]}
        ),
        Case.of(
            ranks__several=True,
            ranks__hangs={"allowed": 60.0, "hangs": [_HANG, {**_HANG, "rank": 1}], "unended": [1]},
        ),
    ),
)
def watchdog(case: Case) -> Iterator[Finding]:
    """No collective hangs.

    When neither a step nor a collective comes for the allowance (`--hang 60s`), the ranks tell
    each other where they stand, by the backend's numbers, torch's flight recorder and the line of
    the program. A run that went on after it or stood outside of collectives is told as a note.

    Why: the backend's own time-out comes after 30 minutes and names nobody.
    Fix: look at the rank that is named, at the line that is named.
    Source: https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html
    """
    told = case.value("ranks.hangs")
    for words in dict.fromkeys(row["words"] for row in told["hangs"]):
        row = next(one for one in told["hangs"] if one["words"] == words)
        file, _, line = str(row["at"]).rpartition(":")
        waits = not row["resumed"] and any(one["inside"] for one in row["told"])
        grade = Grade.MEASURED if told["unended"] and waits else Grade.RECALLED
        yield Finding(
            f"no step and no collective for {row['seconds']:.0f} s in step {row['step']}: {words}",
            (Evidence("ranks.hang", row, source="counters of each rank", grade=grade),),
            Place(file=file, line=int(line) if line.isdigit() else 0, step=row["step"]),
            why="the ranks that wait stand still until somebody ends them",
            fix="look at the rank that is named",
        )
