"""REF006: what the first step was given is not what the reference was given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Place, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge.numerics_reference import FOLLOWS, beyond, reference, rows


def _later(case: Case, every: list[Any]) -> Iterator[Finding]:
    """Batches of later steps, where the first one, and all that came of it, was the reference's."""
    given = [one for one in every if one["step"] and not one["weight"]]
    odd = [one for one in given if not one["same"] and not one.get("carried")]
    step = min((one["step"] for one in odd), default=0)
    if step and not any(beyond(case, one)[0] for one in rows(case) if one["step"] < step):
        count = sum(one["step"] == step for one in odd)
        yield Finding(
            f"the batch of step {step} is not that of the reference, though the first one is: "
            f"{count} tensors differ",
            (Evidence("inputs that differ", count, "tensors", "SHA-1"),),
            Place(step=step),
            claimed="this run is given what the reference was given",
            fix="compare the order of the data, the sampler's seed, and buffers used again",
        )


MOST = 0.5
"""Of the bytes, what may differ for the rest to be meant to be the same."""


def _given(number: int, **changes: Any) -> Event:
    data: dict[str, Any] = {
        "name": f"0/given/{number}",
        "step": 0,
        "shape": [8, 4],
        "dtype": "f32",
        "same": True,
        "fed": False,
        "known": True,
        "weight": False,
        "bytes": 128,
        "constant": False,
    }
    return Event("reference.given", {**data, **changes}, step=0, id=f"0/given/{number}")


@check(
    "REF006",
    Severity.ERROR,
    when=(FOLLOWS,),
    needs=("numerics.reference",),
    good=(
        Case.of(_given(0), _given(1), numerics__follows=True, numerics__reference=reference()),
        Case.of(
            _given(0, same=False, fed=True),
            _given(1, same=False, fed=True),
            numerics__follows=True,
            numerics__reference=reference(),
        ),
        Case.of(
            _given(0),
            _given(1, same=False, fed=True, step=1, carried=True),
            numerics__follows=True,
            numerics__reference=reference(),
        ),
    ),
    bad=(
        Case.of(
            _given(0),
            _given(1, same=False, fed=True, dtype="i64", bytes=64),
            numerics__follows=True,
            numerics__reference=reference(),
        ),
        Case.of(
            _given(0),
            _given(9, same=False, fed=True, step=4),
            numerics__follows=True,
            numerics__reference=reference(),
        ),
    ),
)
def given(case: Case) -> Iterator[Finding]:
    """The weights and the batch that the run began with are those of the reference, or all others.

    When most of the bytes differ the run has other seeds or another order of data: that is no
    breach, the reference's were put in place. When most are equal to the bit and some are not,
    something was changed: a layer initialised otherwise, labels shifted, another mask. Tensors
    of one value (zeros, ones) are the same from every seed, so each of them is to agree.

    Why: a wrong initialisation or shifted labels train, to a worse model.
    Fix: see the shape and the order number: weights come in the order in which the model uses them.
    Source: SHA-1 of the bytes of what each step reads and did not make.
    """
    every = [event.data for event in case.rows("reference.given")]
    told = [one for one in every if one["step"] == 0]
    if all(one["same"] for one in told if not one["weight"]):
        yield from _later(case, every)
    for weight in (True, False):
        group = [one for one in told if one["weight"] is weight]
        odd = [one for one in group if one["constant"] and not one["same"]]
        drawn = [one for one in group if not one["constant"]]
        other = [one for one in drawn if not one["same"]]
        if sum(one["bytes"] for one in other) <= MOST * sum(one["bytes"] for one in drawn):
            odd += other
        if not odd:
            continue
        first = odd[0]
        kind = "weights" if weight else "inputs"
        number = first["name"].rpartition("/")[2]
        yield Finding(
            f"{len(odd)} of {len(group)} {kind} of the first step are not those of the reference, "
            "the others are: "
            f"number {number}, {first['dtype']} {first['shape']}",
            (Evidence(f"{kind} that differ", len(odd), "tensors", "SHA-1"),),
            Place(step=0),
            claimed="this run begins as the reference did",
            fix="compare the initialisation" if weight else "compare the data, labels and masks",
        )
