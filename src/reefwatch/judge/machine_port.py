"""What the checks of a code base that moves to ROCm share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place
from reefwatch.core.record import Case, Event

SCANNED = "port.scanned"


def case(kind: str, *texts: str) -> Case:
    """A case with hits of that kind, one for each text."""
    rows = [
        Event("port.hit", {"kind": kind, "file": "/a/x.py", "line": n + 1, "what": t, "text": t})
        for n, t in enumerate(texts)
    ]
    return Case.of(*rows, port__scanned={"files": 1, "lines": 9, "skipped": 0})


def findings(case: Case, kind: str, why: str, fix: str) -> Iterator[Finding]:
    """One finding for each place of that kind."""
    for row in case.rows("port.hit"):
        hit = row.data
        if hit["kind"] == kind:
            yield Finding(
                f"{hit['what']}" + (f" in `{hit['text'][:120]}`" if _more(hit) else ""),
                (Evidence(kind, str(hit["what"]), source="a look at the line"),),
                place=Place(file=str(hit["file"]), line=int(hit["line"])),
                why=why,
                fix=fix,
            )


def doubt(case: Case) -> str:
    """What could not be read, and so was not looked at."""
    about = case.value(SCANNED)
    rows = about.get("unread", ())
    more = f" (and {about['skipped'] - 1} more)" if about["skipped"] > 1 else ""
    return f"not read: {rows[0][0]} ({rows[0][1]}){more}" if rows else ""


def covers(case: Case) -> tuple[Coverage, ...]:
    """How many of the files were read."""
    about = case.value(SCANNED)
    return (Coverage("files", about["files"], about["files"] + about["skipped"]),)


def _more(hit: Any) -> bool:
    return bool(hit["text"]) and hit["text"] != hit["what"]
