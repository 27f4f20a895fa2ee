"""A callable held against what torch.compile makes of it, on examples and at their edges."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.exc import BackendCompilerFailed

from reefwatch.core.fact import Evidence, Unknown
from reefwatch.core.ports import Sink
from reefwatch.experiments.compiled.after import Aftermath
from reefwatch.experiments.compiled.edges import edges
from reefwatch.gather.compiled.copies import Copies
from reefwatch.gather.compiled.frames import Frames
from reefwatch.gather.compiled.rows import mismatch
from reefwatch.gather.compiled.trial import Rules, Trial, Verdict, judge
from reefwatch.gather.compiled.world import replaced


class Checked:
    """A callable to be checked, as the guard's rows and the stage ladder know one."""

    def __init__(self, function: Any, file: str, line: int, backend: Any) -> None:
        self.function, self.file, self.line, self.backend = function, file, line, backend
        named = backend if isinstance(backend, str) else getattr(backend, "__name__", "backend")
        self.settings: dict[str, Any] = {
            "backend": named, "options": {}, "dynamic": None, "fullgraph": False,
        }  # fmt: skip
        self.graphs = self.own_randomness = False
        module = isinstance(function, torch.nn.Module)
        self.name = type(function).__name__ if module else function.__qualname__
        self.seconds = 0.0

    def original(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


class Kept:
    """A mismatch to be explained (gather.compiled.guard.Later)."""

    def __init__(self, use: Checked, trial: Trial, rows: Any, history: Any, strict: bool) -> None:
        self.use, self.trial, self.rows, self.history = use, trial, rows, history
        self.strict = strict


def check(
    function: Any,
    examples: Iterable[tuple[Any, ...]],
    place: tuple[str, int],
    sink: Sink,
    folder: Path | None,
    *,
    rules: Rules,
    odd: bool,
    locate: float,
    backend: Any,
    say: Callable[[str], None],
) -> None:
    """Judge a call for each input; mismatches and totals are written into the record."""
    use = Checked(function, *place, backend)
    frames = Frames(torch)
    frames.start()
    kept: list[Any] = []
    rows: list[dict[str, Any]] = []
    count: dict[str, Any] = {"judged": 0, "graded": 0, "calls": 0, "inconclusive": 0, "bytes": 0}
    reasons: dict[str, int] = {}
    began = time.perf_counter()
    with torch._inductor.config.patch(fallback_random=True):
        torch._dynamo.reset()
        compiled = torch.compile(function, backend=backend)
        history: list[Trial] = []
        for example in examples:
            for what, inputs in edges(example) if odd else [("the example", example)]:
                say(f"{use.name}: {what}")
                copies = Copies()
                inputs = tuple(replaced(value, copies.of) for value in inputs)
                trial = Trial(function, inputs, {}, whole=True)
                verdict = _judged(trial, compiled, inputs, rules)
                count["calls"] += 1
                if verdict.unproven:
                    reasons[verdict.unproven] = reasons.get(verdict.unproven, 0) + 1
                    continue
                count["judged"] += 1
                count["graded"] += verdict.graded
                count["inconclusive"] += len(verdict.inconclusive)
                count["bytes"] = max(count["bytes"], verdict.bytes)
                made = []
                for one in verdict.differences[:2]:
                    row = mismatch(len(rows) + 1, use, count["calls"], trial, verdict, one)
                    row["text"] = f"{what}: {row['text']}"
                    rows.append(row)
                    made.append(row)
                    sink.event("compile.mismatch", row, id=str(row["number"]))
                if made:
                    kept.append(Kept(use, trial, made, list(history), rules.strict_casts))
                history = [*history, trial][-2:]
        frames.stop()
        seconds = time.perf_counter() - began
        Aftermath(sink, folder, locate, say, rules).work(_apart(kept))
    _totals(sink, frames, count, reasons, seconds)


def _judged(trial: Trial, compiled: Any, inputs: Any, rules: Rules) -> Verdict:
    if trial.reason:
        return Verdict(unproven=trial.reason)
    out, error = None, None
    try:
        out = compiled(*inputs)
    except Exception as raised:
        error = raised
    seen = trial.observe(out, error)
    if isinstance(error, BackendCompilerFailed):
        return Verdict(unproven=f"it could not be compiled: {error}"[:300])
    return judge(trial, seen, compiled, rules, own_randomness=False)


def _apart(kept: list[Any]) -> list[Any]:
    """One of each sort: the same op fails at several edges for one reason."""
    found: dict[Any, Any] = {}
    for one in kept:
        row = one.rows[0]
        found.setdefault((row["kind"], row["path"]), one)
    return list(found.values())


def _totals(
    sink: Sink, frames: Frames, count: dict[str, Any], reasons: dict[str, int], seconds: float
) -> None:
    value: dict[str, Any] = {
        **count, "callables": 1, "called": 1, "kinds": count["calls"],
        "kinds_judged": count["judged"], "left": 0, "unproven": reasons,
        "seconds": seconds, "allowance": 0.0, "mode": "report",
    }  # fmt: skip
    graded = count["graded"] > 0
    for name, told in (("used", True), ("differentiated", graded), ("calls", value)):
        why = "the original callable" if told else "nothing asks for a gradient"
        sink.fact(f"compile.{name}", Evidence(f"compile.{name}", told, source=why))
    for number, row in enumerate(frames.rows.values()):
        sink.event("compile.frame", row, id=str(number))
    kinds = [row["kind"] for row in frames.rows.values()]
    met: dict[str, Any] = {
        "compiled": frames.compiled, "left": kinds.count("left"), "breaks": kinds.count("break"),
        "limits": kinds.count("limit"), "calls": count["calls"],
    }  # fmt: skip
    why = frames.reason
    fact = Unknown(why) if why else Evidence("compile.frames", met, source="dynamo")
    sink.fact("compile.frames", fact)
