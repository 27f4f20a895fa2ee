"""Two callables on the same inputs: one is the reference of the other, float64 the referee."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from reefwatch.gather.compiled import compare as rule
from reefwatch.gather.compiled.copies import Uncopied
from reefwatch.gather.compiled.effects import Outside
from reefwatch.gather.compiled.outcome import Outcome
from reefwatch.gather.compiled.trial import RANDOM, Judge, Rules, Trial
from reefwatch.measure import departures


def compare(
    function: Callable[..., Any],
    reference: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Any, str, str]:
    """(the result of `function`, how it departs, why nothing could be said); "" for neither.

    The gradients for a random cotangent are compared too, where an input asks for one.
    """
    trial = Trial(reference, args, kwargs, whole=True)
    if trial.reason:
        return function(*args, **kwargs), "", trial.reason
    out = function(*args, **kwargs)
    seen = trial.observe(out, None)
    sent = (RANDOM,) if trial.differentiates else ()
    try:
        eager = trial.run(reference, sent)
        if eager.error is not None:
            raised = f"{type(eager.error).__name__}: {eager.error}"
            return out, "", f"the reference raises {raised}"[:300]
        judge = Judge(trial, Rules(), eager, sent)
        judge.look(seen, True, only="call")
        if sent and eager.graded and not judge.verdict.differences:
            again = trial.run(function, sent)
            again.labels = sent
            judge.look(again, True)
            seen.tensors.update(again.tensors)
    except (Outside, Uncopied) as error:
        return out, "", str(error)
    found = judge.verdict.differences
    if not found:
        unsure = judge.verdict.inconclusive
        return (
            out,
            "",
            f"under noise the reference itself moves as much: {unsure[0].text}" if (unsure) else "",
        )
    truth = trial.truth(eager, sent)
    lines = ["it departs from the reference"]
    for one in found[:3]:
        lines += _told(one, seen, eager, truth)
    if len(found) > 3:
        lines.append(f"  and {len(found) - 3} more")
    return out, "\n".join(lines), ""


def _told(one: rule.Difference, seen: Outcome, eager: Outcome, truth: Outcome | None) -> list[str]:
    text = one.text.replace(" compiled and ", " here and ").replace("compiled code", "this one")
    text = text.replace("the original", "the reference")
    lines = [f"  {text}"]
    got, own = seen.tensors.get(one.path), eager.tensors.get(one.path)
    if one.kind != "value" or got is None or own is None:
        return lines
    true = None if truth is None else truth.tensors.get(one.path)
    should = own if true is None or true.shape != own.shape else true
    off = (got.double() - should.double()).abs().flatten()
    size = should.double().abs().flatten()
    unit = float(torch.finfo(own.dtype).eps)
    lines += departures.lines(off.tolist(), size.tolist(), one.wrong, one.error, one.allowed, unit)
    return lines
