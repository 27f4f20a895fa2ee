"""LOOP007: values that reach the loss or an update are finite."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place, Severity
from reefwatch.core.record import Case, Event


def _row(**parts: Any) -> Event:
    data = {
        "where": "loss",
        "kind": "nan",
        "number": 7,
        "at": ["/train.py", 30],
        "dtype": "float32",
        "source": "op",
        "op": "aten.log.default",
        "module": "head",
        "file": "/model.py",
        "line": 12,
        "phase": "forward",
        "made": "inf",
    }
    return Event("loop.nonfinite", {**data, **parts}, id=f"{parts}")


def _covers(case: Case) -> tuple[Coverage, ...]:
    value = case.value("loop.finite")
    ops, lost = value["ops"], value.get("lost", 0)
    kept = (Coverage("ops", ops, ops + lost),) if lost else ()
    return (Coverage("steps", value["steps"], value["steps_of"]), *kept)


_FACTS: dict[str, Any] = {
    "loop__training": True,
    "loop__finite": {"ops": 900, "steps": 9, "steps_of": 9, "stray": 0},
}


@check(
    "LOOP007",
    Severity.ERROR,
    when=("loop.training",),
    needs=("loop.finite",),
    good=(
        Case.of(**_FACTS),
        Case.of(_row(where="op"), **_FACTS),
        Case.of(_row(kind="inf", dtype="float16"), loop__scaled=True, **_FACTS),
    ),
    bad=(
        Case.of(_row(), **_FACTS),
        Case.of(_row(where="grad", param="fc.weight"), **_FACTS),
        Case.of(_row(source="input", op="", file=""), **_FACTS),
        Case.of(_row(source="not seen"), **_FACTS),
    ),
    covers=_covers,
)
def finite_values(case: Case) -> Iterator[Finding]:
    """No NaN or Inf reaches the loss or an update.

    The finding names the op that made it from finite inputs, with module and line. It begins at a
    loss, or at a gradient that an optimizer applies, and follows back only what is not finite. So a
    mask of -inf whose softmax is finite, a log(0) behind a `where`, memory not yet written, and
    the Inf that a GradScaler looks for are no findings. Where a NaN is born of an Inf, the op that
    made the Inf is named, unless it was written down (`masked_fill`): then the op that could not
    bear it.

    Why: NaN spreads to everything computed from it.
    Fix: keep the argument in range at that op (clamp, eps), or mask before it, not after:
    the gradient of `where(ok, f(x), 0)` is NaN where f's is.
    Source: https://docs.pytorch.org/docs/stable/notes/autograd.html#gradients-for-non-differentiable-functions
    """
    scaled = case.known("loop.scaled", False)
    for row in case.rows("loop.nonfinite"):
        data = row.data
        if data["where"] == "op":
            continue
        if scaled and data["kind"] == "inf" and data.get("dtype") == "float16":
            continue
        reached = "the loss" if data["where"] == "loss" else f"the gradient of {data.get('param')}"
        yield Finding(
            f"{reached} of backward {data['number']} is {data['kind']}; {_origin(data)}",
            (Evidence("loop.nonfinite", data["kind"], source="outputs of ops"),),
            _place(data, row.step),
            why="NaN spreads to everything computed from it",
            fix="keep the argument of that op in range, or mask before it",
        )
        return


def _origin(data: Any) -> str:
    if data["source"] == "not seen":
        return "the op that made it was not seen, the step was not examined"
    if data["source"] == "op":
        return f"{data['op']} made the first {data['made']} ({data['phase']})"
    return f"it came into the step with a tensor that was not finite already ({data['source']})"


def _place(data: Any, step: int | None) -> Place:
    if data["source"] == "op":
        return Place(data["module"], data["op"], data["file"], data["line"], step)
    return Place(file=data["at"][0], line=data["at"][1], step=step)
