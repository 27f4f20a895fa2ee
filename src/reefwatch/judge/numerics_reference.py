"""What the checks of a reference have in common: rows in order, tolerances, words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from reefwatch.core.claim import Tolerance
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place
from reefwatch.core.record import Case, Event

FOLLOWS = "numerics.follows"
SAFETY = Tolerance(
    6.0,
    "times the noise",
    "a choice: the noise is the largest of a few runs moved by one ulp, and a few runs do not show "
    "the largest that there is",
)
FLOORS = {
    "f64": Tolerance(1e-9, "relative", "rounding of float64 through a few hundred ops"),
    "f32": Tolerance(1e-4, "relative", "rounding of float32 through a few hundred ops"),
    "bf16": Tolerance(3e-2, "relative", "eight units of bfloat16"),
    "f16": Tolerance(4e-3, "relative", "eight units of float16"),
}
"""Where no noise was measured, and for another machine than the reference's."""
SAME = Tolerance(
    1e-6, "relative", "the same machine gives the same bits; a reduction over threads may not"
)
BACK = Tolerance(
    4.0,
    "times the floor",
    "a gradient sums many roundings to 16 bits: one H200 against a CPU measured up to 2.5 times",
)
LATER = Tolerance(
    50.0,
    "times the floor",
    "an optimizer that scales by the gradient's size turns the rounding of a zero gradient into "
    "whole steps; measure the noise with --perturb to be strict",
)
NEGLIGIBLE = Tolerance(
    1e-5,
    "of the largest gradient",
    "float32 has 24 bits; sums of a few thousand terms cancel to about 1e-6 of their size",
)
LOW = frozenset(("bf16", "f16"))


def row(**changes: Any) -> Event:
    """A row as the instrument writes it, for good and bad cases."""
    data: dict[str, Any] = {
        "step": 0,
        "phase": "forward",
        "module": "fc",
        "op": "aten.addmm.default",
        "out": 0,
        "nth": 0,
        "order": 5,
        "file": "/model.py",
        "line": 7,
        "matched": True,
        "problem": "",
        "dtype": "f32",
        "value": 1e-7,
        "norm": 1e-8,
        "slice": 1e-7,
        "at": 0,
        "bad": False,
        "noise": None,
    }
    data.update(changes)
    return Event("reference.row", data, step=data["step"], id=str(data["order"]))


def reference(**changes: Any) -> dict[str, Any]:
    """The fact `numerics.reference`, for good and bad cases."""
    value: dict[str, Any] = {
        "steps": [0, 1, 2],
        "of": [0, 1, 2],
        "rows": 300,
        "rows_of": 300,
        "same_machine": False,
        "noise": 0,
        "rerun": False,
        "fed": {"same": 10},
        "coarsest": "f32",
    }
    return {**value, **changes}


def rows(case: Case, phases: Iterable[str] = (), *, first: bool | None = None) -> list[Any]:
    """The rows of some phases, in the order of the run; `first`: of step 0, or of later ones."""
    wanted = set(phases)
    told = [event.data for event in case.rows("reference.row")]
    told = [one for one in told if not wanted or one["phase"] in wanted]
    if first is not None:
        told = [one for one in told if (one["step"] == 0) == first]
    return sorted(told, key=lambda one: (one["step"], one["order"]))


def limit(case: Case, one: Mapping[str, Any], part: str) -> float:
    """How far this row may be off, relative: from the measured noise where there is some.

    Norms also by what elements without a gradient may drift under an optimizer such as Adam; the
    values told leave those elements out (measure/soft.py).
    """
    drift = 0.0 if part == "value" else float(one.get("drift") or 0.0)
    return _limit(case, one, part) + drift


def _limit(case: Case, one: Mapping[str, Any], part: str) -> float:
    told = case.value("numerics.reference")
    noise = one.get("noise") or {}
    floor = FLOORS.get(one["dtype"], FLOORS["f32"]).limit
    if told["same_machine"] and "rerun" in noise:
        return max(SAFETY.limit * float(noise["rerun"][part]), SAME.limit)
    if told["same_machine"] and one["step"] == 0 and one["phase"] in ("setup", "forward"):
        return SAME.limit  # a forward gives the same bits twice; what adds atomically is backward
    if not told["same_machine"] and told["coarsest"] in LOW:
        # the noise is of one ulp of float32: it says little of where 16 bits are rounded
        floor = FLOORS[told["coarsest"]].limit
        back = one["phase"] not in ("setup", "forward")
        return max(floor * (BACK.limit if back else 1), SAFETY.limit * _of(noise, part))
    if "noise" not in noise:
        # how fast two right runs part was not measured: only equal bits so far speak for strictness
        return floor if one["step"] == 0 or _exact(case) else floor * LATER.limit
    own = float(noise["noise"][part]) if told["same_machine"] else _of(noise, part)
    return max(SAFETY.limit * own, floor / 8)


def negligible(case: Case) -> frozenset[str]:
    """Parameters whose gradient is zero but for rounding (a bias before a normalisation).

    An optimizer that scales by the gradient's own size makes whole steps of that rounding.
    """
    told = [one for one in rows(case, ("gradient",)) if one.get("size") is not None]
    most: dict[int, float] = {}
    for one in told:
        most[one["step"]] = max(most.get(one["step"], 0.0), one["size"])
    shares = {(one["module"], one["size"] / (most[one["step"]] or 1)) for one in told}
    return frozenset(module for module, share in shares if not NEGLIGIBLE.exceeded_by(share))


def rounding(case: Case, lost: frozenset[str]) -> frozenset[tuple[str, float]]:
    """(module, size) of gradients that are rounding alone: the op that made one has that size."""
    return frozenset(
        (one["module"].rpartition(".")[0], one["size"])
        for one in rows(case, ("gradient",))
        if one["module"] in lost and one.get("size") is not None
    )


def _exact(case: Case) -> bool:
    """True when the first forward gave the reference's bits."""
    told = rows(case, ("setup", "forward"), first=True)
    return all(not one.get("value") and not one.get("slice") for one in told)


def _of(noise: Mapping[str, Any], part: str) -> float:
    """What a perturbation made of this row, or of the rows around it, if that is more."""
    if "noise" not in noise:
        return 0.0
    return max(float(noise["noise"][part]), float(noise.get("around", {}).get(part, 0.0)))


def beyond(case: Case, one: Mapping[str, Any]) -> tuple[str, float, float]:
    """(what is off: value, slice, norm, finite or ""; how far; how far it may be)."""
    if one["problem"] or not one["matched"] or "value" not in one:
        return "", 0.0, 0.0
    if one["bad"]:
        return "finite", 1.0, 0.0
    worst = ("", 0.0, 0.0)
    for part in ("value", "slice", "norm"):
        allowed = limit(case, one, part)
        off = float(one[part])
        if off > allowed and off / allowed > (worst[1] / worst[2] if worst[2] else 0):
            worst = (part, off, allowed)
    return worst


def covers(case: Case) -> tuple[Coverage, ...]:
    told = case.value("numerics.reference")
    return (
        Coverage("rows of the reference", told["rows"], told["rows_of"]),
        Coverage("steps of the ladder", len(told["steps"]), max(len(told["of"]), 1)),
    )


def unseen(case: Case, *phases: str, before: tuple[str, ...] = ()) -> str:
    """Why nothing can be said of these phases; empty when it can.

    `before` are phases of the first step: what comes after one that has left follows from it.
    """
    if before and any(beyond(case, one)[0] for one in rows(case, before, first=True)):
        return "an earlier part of the first step has left the reference: what follows has too"
    if any(one["matched"] and "value" in one for one in rows(case, phases)):
        return ""
    return "no row of it could be matched with the reference's"


def place(one: Mapping[str, Any]) -> Place:
    op = one["op"] if one["phase"] not in ("gradient", "weight", "parameter") else f"{one['phase']}"
    return Place(one["module"], op, one["file"], one["line"], one["step"])


def worst_first(case: Case, found: list[Any]) -> list[Any]:
    """The same rows, those of one step by how far they are beyond what is allowed.

    Weights as they are before an update come first: there nothing else has followed from them yet.
    """

    def key(one: Any) -> Any:
        part, off, allowed = beyond(case, one)
        return one["step"], one["phase"] != "weight", -(off / allowed if part and allowed else 0.0)

    return sorted(found, key=key)


def first_of(case: Case, found: list[Any], title: str, fix: str) -> Finding | None:
    """One finding for the first row that leaves the reference; the rest follow from it."""
    for number, one in enumerate(found):
        part, off, allowed = beyond(case, one)
        if not part:
            continue
        after = sum(bool(beyond(case, other)[0]) for other in found[number + 1 :])
        what = {
            "value": "its values",
            "slice": f"slice {one['at']}",
            "norm": "its norm",
            "finite": "which elements are finite",
        }[part]
        where = one["module"] or one["op"]
        message = f"{title} at {where} ({one['op']}, step {one['step']}): {what} "
        message += (
            f"differ by {off:.3g}, {allowed:.3g} is allowed" if part != "finite" else "differs"
        )
        return Finding(
            message,
            (
                Evidence("distance", off, "relative", f"sketch of {one['op']}"),
                Evidence("tolerance that would have passed", off, "relative"),
            ),
            place(one),
            claimed="this run follows the reference",
            why=f"{after} later rows differ too; the first one is where it began" if after else "",
            fix=fix,
        )
    return None
