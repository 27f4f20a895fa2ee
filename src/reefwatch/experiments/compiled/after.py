"""What is done when the run is over: calls that had to wait are judged, mismatches explained."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from reefwatch.core.ports import Sink
from reefwatch.experiments.compiled import ladder, repro, window
from reefwatch.gather.compiled.guard import Later
from reefwatch.gather.compiled.trial import RANDOM, SUM, Rules, judge_again

LIKE = 1.3
"""Times the first call's own time, that a twin is taken to need: most of it is compiling."""


class Aftermath:
    """Works off what the guard has kept, and writes into the record.

    All of it may take `seconds`, but for a compilation that is under way. `say` is told what is
    being done.
    """

    def __init__(
        self,
        sink: Sink,
        folder: Path | None,
        seconds: float,
        say: Callable[[str], None],
        rules: Rules,
    ) -> None:
        self._sink, self._folder, self._say, self._rules = sink, folder, say, rules
        self._until = time.monotonic() + seconds

    def going(self) -> bool:
        return time.monotonic() < self._until

    def work(self, kept: list[Later]) -> None:
        """All that was kept, mismatches first. The program's compiled code is not needed any more.

        Its threads are over, and the pools that compile with them: each is compiled on this thread.
        """
        with torch._inductor.config.patch(compile_threads=1):
            for later in [one for one in kept if one.rows]:
                self._guarded(later, self._explain)
            for later in [one for one in kept if not one.rows]:
                if time.monotonic() + LIKE * later.use.seconds < self._until:
                    self._guarded(later, self._judge)
            torch._dynamo.reset()

    def _guarded(self, later: Later, act: Callable[[Later], None]) -> None:
        try:
            ladder.prepared(later)
            act(later)
        except Exception as error:
            for row in later.rows or ():
                row["why"] = f"explaining it failed: {type(error).__name__}: {error}"[:300]
                self._write(row)

    def _write(self, row: dict[str, Any]) -> None:
        self._sink.event("compile.mismatch", row, id=str(row["number"]))

    def _explain(self, later: Later) -> None:
        row = later.rows[0]
        if not self.going():
            for one in later.rows:
                one["why"] = "the stage was not looked for: the time for it was over"
                self._write(one)
            return
        self._say(f"looking for the stage and op of a mismatch in {row['callable']}")
        row["stage"], backend = ladder.stage(later, row["path"], self.going)
        if backend is not None and row["stage"] != "dynamo":
            found = window.search(later, backend, row["path"], self.going)
            if found is not None:
                self._place(row, found, backend, later)
        for one in later.rows[1:]:
            for word in ("stage", "ops", "module", "source", "repro", "alone", "why"):
                one[word] = row[word]
        for one in later.rows:
            self._write(one)

    def _place(self, row: dict[str, Any], found: window.Window, backend: Any, later: Later) -> None:
        row.update(ops=found.ops, module=found.module, source=found.source)
        if self._folder is None:
            return
        folder = self._folder / f"mismatch{row['number']}"
        casts = [(d, str(t).removeprefix("torch.")) for d, t in later.trial.setting.casts]
        path = repro.write(folder, found, backend, row, casts)
        row["repro"] = str(path)
        left = self._until - time.monotonic()
        if left > 5:
            row["alone"] = repro.says(path, left)
            repro.issue(folder, row, found, backend)

    def _judge(self, later: Later) -> None:
        """A call that could not be judged while the run went on: a twin with eager's draws."""
        use = later.use
        self._say(f"judging {use.name} on a twin")
        twin = not use.graphs
        if twin:
            with torch._inductor.config.patch(fallback_random=True):
                compiled = ladder.compiled_by(use, use.backend)
                verdict = judge_again(later.trial, compiled, self._rules, (RANDOM, SUM))
        else:
            compiled = ladder.compiled_by(use, use.backend)
            verdict = judge_again(
                later.trial, compiled, self._rules, (RANDOM, SUM), not use.own_randomness
            )
        told = {
            "callable": use.name,
            "judged": not verdict.unproven,
            "graded": verdict.graded,
            "why": verdict.unproven or verdict.partly,
            "inconclusive": len(verdict.inconclusive),
            "mismatches": len(verdict.differences),
        }
        self._sink.event("compile.twin", told, id=str(use.number))
        later.settled(verdict)
        if verdict.differences:
            later.rows = [later.row(verdict, one, twin) for one in verdict.differences[:3]]
            for row in later.rows:
                self._write(row)
            with torch._inductor.config.patch(fallback_random=True):
                self._explain(later)
