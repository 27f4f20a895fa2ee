"""PREC048: attention on a fused path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Place, Severity
from reefwatch.core.record import Case, Event
from reefwatch.judge.precision_claims import covers

SCORES = Tolerance(
    1.0,
    "scores per element of q, k and v",
    "below one the matrix of scores is smaller than the operands, and no kernel would save much",
)
_ROW: dict[str, Any] = {
    "path": "math",
    "q": [2, 8, 1024, 64],
    "k": [2, 8, 1024, 64],
    "dtype": "f32",
    "device": "cuda",
    "mask": "",
    "causal": False,
    "dropout": False,
    "calls": 4,
    "module": "block.attention",
    "file": "/model.py",
    "line": 30,
    "reasons": ["q is f32: flash takes 16 bits only (autocast off?)"],
    "choice": "math",
}
_FACTS: dict[str, Any] = {
    "precision__attention": {"math": 4},
    "precision__ops": {"steps": 1, "steps_of": 1, "modules_seen": 1, "modules_total": 1},
}


@check(
    "PREC048",
    Severity.WARNING,
    needs=("precision.attention", "precision.ops"),
    when=("precision.attention",),
    covers=covers,
    good=(
        Case.of(Event("precision.attention", _ROW | {"path": "flash"}, id="1"), **_FACTS),
        Case.of(
            Event(
                "precision.attention",
                _ROW | {"q": [2, 8, 64, 64], "k": [2, 8, 64, 64]},
                id="1",
            ),
            **_FACTS,
        ),
    ),
    bad=(Case.of(Event("precision.attention", _ROW, id="1"), **_FACTS),),
)
def attention_gate(case: Case) -> Iterator[Finding]:
    """Scaled dot product attention takes a fused path with the operands that it is given.

    Names each place where it went through products and a softmax over the whole matrix of scores,
    with the reasons: those that the operands themselves show, and torch's own words where a GPU is
    there. Attention over so few keys that the scores are smaller than q, k and v is left out.

    Why: dtype, mask, head size, dropout and the card decide it, one by one and silently; the math
    path keeps T x T scores for backward, and for 16-bit operands computes them in fp32.
    Fix: as the reason says: let autocast cover q, k and v; cast the mask to their dtype or make it
    boolean; pad the head size to a multiple of 8.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
    """
    for event in case.rows("precision.attention"):
        row = event.data
        if row["path"] != "math":
            continue
        queries, size = row["q"][-2:]
        keys = row["k"][-2]
        ratio = queries * keys / (size * (queries + 2 * keys))
        if not SCORES.exceeded_by(ratio):
            continue
        yield Finding(
            f"attention of {queries} queries and {keys} keys in {row['dtype']} took the math path",
            (
                Evidence("calls", row["calls"], source="dispatch"),
                Evidence("scores per element of q, k and v", ratio, source="dispatch"),
            ),
            Place(row["module"], "scaled_dot_product_attention", row["file"], row["line"]),
            why="; ".join(row["reasons"]) or "no reason is known",
            cost=f"{ratio:.1f} scores are kept for each element of q, k and v",
            fix="make the operands such that a fused kernel takes them, as the reason says",
        )
