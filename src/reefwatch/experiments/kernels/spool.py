"""What the leading version saw of each launch, kept on disk for the versions that follow.

A follower whose own inputs differ (an earlier kernel rounded otherwise) runs the launch once more
on the leader's inputs, so that two versions are always compared on the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reefwatch.experiments.kernels import execution

LARGEST = 64 << 20
"""Bytes of one launch that are kept at most."""
ALL = 1 << 30
"""Bytes of all launches."""


class Spool:
    """Written by the leader, read by the others."""

    def __init__(self, folder: Path, leads: bool) -> None:
        self.folder, self.leads, self.bytes = folder, leads, 0

    def exchange(
        self,
        examiner: Any,
        row: dict[str, Any],
        subjects: dict[str, tuple[Any, Any]],
        before: Sequence[Any],
        said: dict[str, Sequence[Any]],
    ) -> None:
        """Keep this launch, or hold it against the leader's."""
        name = f"{row['kernel']}-{row['launch']}".replace("/", "_").replace("<", "").replace(">", "")
        path = self.folder / f"{name}.npz"
        if self.leads:
            self._keep(path, row, subjects, before, said)
        elif path.exists():
            self._compare(path, examiner, row, subjects, before)

    def _keep(self, path: Path, row: Any, subjects: Any, before: Any, said: Any) -> None:
        size = sum(len(raw) for raw in before) * (1 + len(subjects) + len(said))
        if size > LARGEST or self.bytes + size > ALL:
            return
        self.bytes += size
        arrays = {f"before/{n}": raw for n, raw in enumerate(before)}
        for target, (_, ran) in subjects.items():
            if ran.status == "ran":
                arrays |= {f"{target}/{n}": raw for n, raw in enumerate(ran.contents)}
        for kind, contents in said.items():
            arrays |= {f"{kind}/{n}": raw for n, raw in enumerate(contents)}
        arrays["version"] = np.array(row["version"])
        np.savez(path, **arrays)

    def _compare(
        self, path: Path, examiner: Any, row: Any, subjects: Any, before: Sequence[Any]
    ) -> None:
        from reefwatch.experiments.kernels.witnesses import Bench

        with np.load(path) as kept:
            theirs = {name: kept[name] for name in kept.files}
        version = str(theirs.pop("version"))
        count = len(before)

        def part(name: str) -> list[Any] | None:
            found = [theirs.get(f"{name}/{n}") for n in range(count)]
            return None if any(raw is None for raw in found) else found

        inputs = part("before")
        if inputs is None or [len(r) for r in inputs] != [len(r) for r in before]:
            return
        same = all(np.array_equal(a, b) for a, b in zip(inputs, before, strict=True))
        for target, (subject, ran) in subjects.items():
            mine = ran.contents
            if ran.status != "ran":
                continue
            arguments = subject.arguments
            if not same:
                arguments.put(inputs)
                again = execution.run(subject.compiled, subject.grid, arguments)
                mine = again.contents
                if again.status != "ran":
                    continue
            bench = Bench(examiner, arguments, subject, mine, inputs)
            told = row["subjects"][target]["witnesses"]
            output, interpreter = part(target), part("interpreter")
            if output is not None:
                told.append({**bench.held("version", version, output), "subject": target})
            if interpreter is not None:
                told.append(
                    {**bench.held("leader's interpreter", version, interpreter), "same": same}
                )
            arguments.put(before)


