"""LOOP011: training in train mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place, Severity
from reefwatch.core.record import Case, Event

_ROW = Event(
    "loop.phase",
    {"module": "Net", "training": False, "phase": "train", "file": "/train.py", "line": 30},
    id="train Net",
)


def _case(eval_steps: int, *rows: Event) -> Case:
    value = {"train_steps": 9, "eval_steps": eval_steps}
    return Case.of(*rows, loop__moded=True, loop__mode=value, loop__training=True)


def _covers(case: Case) -> tuple[Coverage, ...]:
    value: Any = case.value("loop.mode")
    steps = value["train_steps"] + value["eval_steps"]
    told = case.known("loop.params") or {}
    modules, of = value.get("modules", 1), value.get("modules_of", 1)
    sampled = (Coverage("modules", modules, of),) if modules < of else ()
    return (Coverage("updates", steps, max(steps, told.get("updates", steps))), *sampled)


@check(
    "LOOP011",
    Severity.WARNING,
    when=("loop.training", "loop.moded"),
    needs=("loop.mode",),
    good=(_case(0),),
    bad=(_case(9, _ROW), _case(1, _ROW)),
    covers=_covers,
)
def train_mode(case: Case) -> Iterator[Finding]:
    """Training runs in train mode.

    At an update every part of the model, its dropout and batch normalisation among them, was in
    eval mode. A part frozen in eval while the others train (batch statistics of a backbone)
    does not count.

    Why: dropout does nothing and batch statistics stay as they are; often `model.train()` is
    missing after an evaluation.
    Fix: call `model.train()` at the start of each training epoch. Fine-tuning with everything in
    eval on purpose: silence this code.
    Source: https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval
    """
    value = case.value("loop.mode")
    total = value["train_steps"] + value["eval_steps"]
    if not value["eval_steps"]:
        return
    for row in case.rows("loop.phase"):
        if row.data["phase"] == "train":
            steps = f"{value['eval_steps']} of {total} updates"
            yield Finding(
                f"{row.data['module']} was in eval mode in {steps}",
                (Evidence("loop.mode", value["eval_steps"], "updates", "Module.training"),),
                Place(row.data["module"], file=row.data["file"], line=row.data["line"]),
                why="its dropout and batch statistics are switched off",
                fix="call model.train() at the start of each training epoch",
            )
