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
        stem = f"{row['kernel']}-{row['launch']}".replace("/", "_").strip("<>")
        path = self.folder / f"{stem}.npz"
        if self.leads:
            self._keep(path, row, subjects, before, said)
        elif path.exists():
            self._compare(path, examiner, row, subjects, before)

    def _keep(self, path: Path, row: Any, subjects: Any, before: Any, said: Any) -> None:
        size = sum(len(raw) for raw in before) * (1 + len(subjects) + len(said))
        if size > LARGEST or self.bytes + size > ALL:
            return
        self.bytes += size
        arrays: dict[str, Any] = {f"before/{n}": raw for n, raw in enumerate(before)}
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
        """Hold the results on the leader's inputs against each version before this one."""
        from reefwatch.experiments.kernels.witnesses import Bench

        led = _Kept(path, len(before))
        inputs = led.part("before")
        if inputs is None or [len(r) for r in inputs] != [len(r) for r in before]:
            return
        earlier = [led, *(_Kept(p, len(before)) for p in sorted(path.parent.glob(_others(path))))]
        same = all(np.array_equal(a, b) for a, b in zip(inputs, before, strict=True))
        arrays: dict[str, Any] = {}
        for target, (subject, ran) in subjects.items():
            arguments = subject.arguments
            if ran.status == "ran" and not same:
                arguments.put(inputs)
                ran = execution.run(subject.compiled, subject.grid, arguments)
            if ran.status != "ran":
                continue
            bench = Bench(examiner, arguments, subject, ran.contents, inputs)
            said = {kind: led.part(kind) for kind in ("interpreter", "reference")}
            bench.said = {kind: what for kind, what in said.items() if what is not None}
            for one in earlier:
                theirs = one.part(target)
                if theirs is not None:
                    told = bench.held("version", one.version, theirs)
                    if not told["agrees"]:  # the other way round: who backs me
                        told["backs"] = [
                            kind
                            for kind, what in bench.said.items()
                            if bench.held(kind, kind, what)["agrees"]
                        ]
                    row["subjects"][target]["witnesses"].append(told)
            arrays |= {f"{target}/{n}": raw for n, raw in enumerate(ran.contents)}
            arguments.put(before)
        arrays["version"] = np.array(row["version"])
        np.savez(path.with_name(f"{path.stem}@{row['version']}.npz"), **arrays)


class _Kept:
    """One file of the spool."""

    def __init__(self, path: Path, count: int) -> None:
        with np.load(path) as kept:
            self.arrays = {name: kept[name] for name in kept.files}
        self.version, self.count = str(self.arrays.pop("version")), count

    def part(self, name: str) -> list[Any] | None:
        """The buffers under a name; None when one is not there."""
        found = [self.arrays.get(f"{name}/{n}") for n in range(self.count)]
        return None if any(raw is None for raw in found) else found


def _others(path: Path) -> str:
    from glob import escape

    return f"{escape(path.stem)}@*.npz"
