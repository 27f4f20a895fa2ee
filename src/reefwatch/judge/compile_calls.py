"""What the checks of compiled code have in common: rows, coverage, doubts, words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place
from reefwatch.core.record import Case, Event

USED = "compile.used"
MOST = 10
"""Findings of one check."""


def row(**changes: Any) -> Event:
    """A mismatch as the guard writes it, for good and bad cases."""
    data: dict[str, Any] = {
        "number": 1,
        "callable": "Net",
        "file": "/train.py",
        "line": 12,
        "call": 1,
        "path": "output",
        "kind": "value",
        "text": "output[0, 3] is 2.5 compiled and 1.5 in float64",
        "error": 1.0,
        "allowed": 1e-5,
        "wrong": 3,
        "elements": 64,
        "referee": "float64",
        "inputs": ["float32[4, 16]"],
        "backend": "inductor",
        "twin": False,
        "stage": "inductor",
        "ops": ["sum"],
        "module": "",
        "source": "/model.py:7",
        "repro": "repro1/repro.py",
        "alone": "WRONG",
        "why": "",
    }
    return Event("compile.mismatch", {**data, **changes}, id="1")


def calls(**changes: Any) -> dict[str, Any]:
    """The fact `compile.calls`, for good and bad cases."""
    value: dict[str, Any] = {
        "callables": 1,
        "called": 1,
        "calls": 100,
        "judged": 2,
        "graded": 2,
        "kinds": 1,
        "kinds_judged": 1,
        "left": 0,
        "inconclusive": 0,
        "unproven": {},
        "seconds": 1.0,
        "bytes": 1 << 20,
        "mode": "report",
    }
    return {**value, **changes}


def case(*rows: Event, **changes: Any) -> Case:
    """A case of a run that compiled something."""
    return Case.of(*rows, compile__used=True, compile__calls=calls(**changes))


def covers(case: Case) -> tuple[Coverage, ...]:
    """Of the kinds of calls (callable, shapes, dtypes, modes), those that were judged."""
    told = case.value("compile.calls")
    return (
        Coverage("kinds of calls", told["kinds_judged"], told["kinds"]),
        Coverage("compiled calls", told["judged"], told["calls"]),
    )


def doubt(case: Case) -> str:
    """Why not everything that was compiled is proven."""
    told = case.value("compile.calls")
    reasons = sorted(told["unproven"], key=lambda reason: -told["unproven"][reason])
    if told["inconclusive"]:
        reasons.insert(
            0,
            f"{told['inconclusive']} results move as much under noise of one unit in the last "
            "place: nothing can be said of them",
        )
    if not told["called"]:
        return "what was compiled was never called"
    if told["kinds_judged"] < told["kinds"] and not reasons:
        left = told["kinds"] - told["kinds_judged"]
        reasons.append(f"{left} kinds of calls were left out for the exam's allowance")
    return "; ".join(reasons[:3])


def doubt_gradients(case: Case) -> str:
    """The same, where gradients are wanted."""
    told = case.value("compile.calls")
    why = doubt(case)
    if why:
        return why
    return "" if told["graded"] else "no gradient of a compiled call could be taken"


def mismatches(case: Case, *kinds: str, gradient: bool | None = None) -> list[Mapping[str, Any]]:
    """The rows of these kinds, of gradients or of what is none."""
    rows = [event.data for event in case.rows("compile.mismatch")]
    return [
        one
        for one in rows
        if one["kind"] in kinds and gradient in (None, one["path"].startswith("gradient"))
    ]


def findings(rows: Iterable[Mapping[str, Any]]) -> Iterator[Finding]:
    """One finding for each mismatch."""
    for one in list(rows)[:MOST]:
        yield finding(one)


def finding(one: Mapping[str, Any]) -> Finding:
    """A mismatch in words."""
    share = f" ({one['wrong']} of {one['elements']} elements)" if one["elements"] else ""
    twin = "; seen on a twin compiled with the original's random numbers" if one["twin"] else ""
    message = f"{one['callable']}, call {one['call']}: {one['text']}{share}{twin}"
    file, line = _place(one)
    op = ", ".join(one["ops"][-3:])
    evidence = [Evidence("error", one["error"], "", f"referee: {one['referee']}")]
    if one["stage"]:
        evidence.append(Evidence("stage", one["stage"], "", "stage ladder"))
    return Finding(
        message,
        tuple(evidence),
        Place(one["module"], op, file, line),
        claimed="torch.compile keeps what the original callable computes",
        why=_why(one),
        fix=_fix(one),
    )


def _place(one: Mapping[str, Any]) -> tuple[str, int]:
    file, _, line = one["source"].rpartition(":")
    if file and line.isdigit():
        return file, int(line)
    return one["file"], one["line"]


def _why(one: Mapping[str, Any]) -> str:
    parts = []
    if one["stage"]:
        parts.append(f"the first stage that departs is {one['stage']}")
    if one["ops"]:
        parts.append(f"smallest failing part: {' '.join(one['ops'][-6:])}")
    if one["why"]:
        parts.append(one["why"])
    if one["inputs"]:
        parts.append(f"inputs {', '.join(one['inputs'])}")
    return "; ".join(parts)


def _fix(one: Mapping[str, Any]) -> str:
    if one["repro"] and one["alone"] == "WRONG":
        return f"run {one['repro']}, which shows it alone; issue.md beside it is ready for upstream"
    if one["repro"]:
        said = f"prints {one['alone']}" if one["alone"] else "was not tried"
        return (
            f"{one['repro']} has the part and its inputs; alone it {said}: what else the program "
            "does to the compiler is not in it"
        )
    return "leave this part out with torch.compiler.disable, and report it upstream"
