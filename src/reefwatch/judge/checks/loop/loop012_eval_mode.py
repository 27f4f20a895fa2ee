"""LOOP012: evaluation in eval mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place, Severity
from reefwatch.core.record import Case, Event

_ROW = Event(
    "loop.phase",
    {"module": "Net", "training": True, "phase": "eval", "file": "/train.py", "line": 44},
    id="eval Net",
)


def _case(noisy: int, *rows: Event) -> Case:
    value = {"calls": 9, "in_train_mode": noisy}
    return Case.of(*rows, loop__evaluation=value, loop__training=True, loop__moded=True)


def _covers(case: Case) -> tuple[Coverage, ...]:
    value: Any = case.value("loop.evaluation")
    return (Coverage("evaluation calls", value["calls"], value["calls"]),)


@check(
    "LOOP012",
    Severity.WARNING,
    when=("loop.training", "loop.moded"),
    needs=("loop.evaluation",),
    good=(_case(0),),
    bad=(_case(9, _ROW),),
    covers=_covers,
)
def eval_mode(case: Case) -> Iterator[Finding]:
    """Evaluation runs in eval mode.

    Between updates the trained model was called under `no_grad` or `inference_mode` with dropout or
    batch statistics in train mode. What is part of every step (labels or samples that the model
    makes for itself), and models that no optimizer trains (targets, teachers, averages), do not
    count.

    Why: dropout makes the score noisy and too low; batch normalisation learns from the
    evaluation data.
    Fix: call `model.eval()` before the evaluation and `model.train()` after it. Dropout kept on
    for its spread (Monte Carlo dropout), and rollouts of a policy: silence this code.
    Source: https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval
    """
    value = case.value("loop.evaluation")
    for row in case.rows("loop.phase"):
        if row.data["phase"] == "eval":
            yield Finding(
                f"{row.data['module']} was in train mode in {value['in_train_mode']} of "
                f"{value['calls']} evaluation calls",
                (Evidence("loop.evaluation", value["in_train_mode"], "calls", "Module.training"),),
                Place(row.data["module"], file=row.data["file"], line=row.data["line"]),
                why="dropout is on, and batch statistics learn from the evaluation data",
                fix="call model.eval() before the evaluation and model.train() after it",
            )
