"""PREC020: low precision pays, measured against what it could."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Severity
from reefwatch.core.record import Case

HALF = Tolerance(
    0.5,
    "share of the possible gain that was missed",
    "below half, more is left than was had: the point where looking for the cause is worth it",
)
SPEED = Tolerance(
    0.10,
    "of the fp32 step time",
    "a possible gain below a tenth is within what schedulers and clocks do to a step",
)
MEMORY = Tolerance(
    0.05, "of the fp32 saved bytes", "less than a twentieth is not worth a change of the model"
)


def _variant(seconds: float, saved: int, spread: float = 0.0) -> dict[str, Any]:
    return {
        "median": seconds,
        "low": seconds * (1 - spread),
        "high": seconds * (1 + spread),
        "steps": 12,
        "saved": {"f32": saved},
    }


def _case(asked: dict[str, Any], best: dict[str, Any] | None) -> Case:
    variants = {"fp32": _variant(1.0, 1000), "asked": asked}
    if best is not None:
        variants["best"] = best
    return Case.of(precision__variants={"variants": variants, "refused": {}, "rounds": 12})


def _covers(case: Case) -> tuple[Coverage, ...]:
    variants = case.value("precision.variants")["variants"]
    return (Coverage("variants", len(variants), 3),)


def _doubt(case: Case) -> str:
    told = case.value("precision.variants")
    missing = [name for name in ("fp32", "asked", "best") if name not in told["variants"]]
    if missing:
        return (
            f"{missing[0]} was not measured: {told['refused'].get(missing[0], 'the script ended')}"
        )
    untimed = [name for name, one in told["variants"].items() if "median" not in one]
    return f"{untimed[0]} was not timed: the script ended before" if untimed else ""


@check(
    "PREC020",
    Severity.WARNING,
    needs=("precision.variants",),
    when=("precision.variants",),
    covers=_covers,
    doubt=_doubt,
    good=(
        _case(_variant(0.5, 500), _variant(0.45, 480)),
        _case(_variant(1.0, 980), _variant(0.97, 970)),
    ),
    bad=(
        _case(_variant(0.95, 500), _variant(0.45, 480)),
        _case(_variant(0.5, 900), _variant(0.45, 480)),
        _case(_variant(1.3, 500), None),
    ),
)
def pays(case: Case) -> Iterator[Finding]:
    """Low precision gives at least half of the speed and memory that it could.

    Three kinds of the same steps in turn, past the warm-up: in fp32, as asked, and with autocast's
    fp32 list and the upcasts in the regions lifted and the weights cast once. Made by
    `reefwatch precision SCRIPT`. A gain that lies within the spread of the steps is none.

    Why: a run can be bf16-mixed by every word of its log and save nothing: the bytes are in what
    norms, promotions and upcasts keep in fp32, the time in casts between them.
    Fix: the table of recoverable bytes names the lines, largest first; `reefwatch explain PREC002`.
    Source: Micikevicius and others, Mixed Precision Training, 2018
    (https://arxiv.org/abs/1710.03740); how the variants are made: docs/decisions/0008.
    """
    variants: Mapping[str, Any] = case.value("precision.variants")["variants"]
    plain, asked, best = (variants.get(name) for name in ("fp32", "asked", "best"))
    if not plain or not asked:
        return
    if "median" in plain and "median" in asked:
        yield from _speed(plain, asked, best)
    total = sum(plain["saved"].values())
    if best and total:
        had = 1 - sum(asked["saved"].values()) / total
        could = 1 - sum(best["saved"].values()) / total
        if MEMORY.exceeded_by(could) and HALF.exceeded_by(1 - had / could):
            yield Finding(
                f"saved-for-backward bytes {'shrank' if had >= 0 else 'grew'} by {abs(had):.0%}, "
                f"where {could:.0%} less is possible",
                (Evidence("had", had, "share"), Evidence("possible", could, "share")),
                cost=f"{could - had:.0%} of the fp32 run's saved bytes",
                fix="cast back after the ops that the table of recoverable bytes names",
            )


def _speed(plain: Any, asked: Any, best: Any) -> Iterator[Finding]:
    evidence = (
        Evidence("fp32 step", plain["median"], "s", "median of alternating steps"),
        Evidence("step as asked", asked["median"], "s", "median of alternating steps"),
    )
    had = 1 - asked["median"] / plain["median"]
    if had < -SPEED.limit and asked["low"] > plain["high"]:
        yield Finding(
            f"a step as asked takes {asked['median'] / plain['median']:.2f} times that in fp32",
            evidence,
            cost=f"{-had:.0%} more time",
            fix="see which ops became slower: `reefwatch precision --profile`",
        )
    elif best and "median" in best:
        could = 1 - best["median"] / plain["median"]
        apart = best["high"] < asked["low"]
        if apart and SPEED.exceeded_by(could) and HALF.exceeded_by(1 - had / could):
            yield Finding(
                f"a step became {had:.0%} shorter, where {could:.0%} is possible",
                (*evidence, Evidence("best possible", best["median"], "s")),
                cost=f"{could - had:.0%} of the fp32 step time",
                fix="the casts and fp32 ops that the tables name",
            )
