"""The third layer: what was launched for each op, from torch's profiler, joined call by call.

The op layer tells the ops of one step in order. The profiler tells nested events of another step,
in which the layer is off since it slows small ops down; of them, the op that the layer saw is one.
Walking its trees in the order of time, the next op of the layer is the next event of its name.
Kernels hang on the events by the profiler's own correlation numbers. Only used where it is asked
for: a profiler slows a step down, and keeps its events in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from reefwatch.core.dtypes import FLOATS
from reefwatch.core.fact import Evidence, Unknown
from reefwatch.core.ports import Sink
from reefwatch.gather.precision.rows import Row
from reefwatch.gather.precision.slow import slow_cause

JOINED = 0.95
"""Of the ops in tensors, the part that must be found among the profiler's events."""

_MODE = "PythonDispatchMode"
"""The profiler's event for a dispatch mode's handler (torch 2.13)."""
Launch = tuple[str, float]


class Launches:
    """Seconds and kernels by row. Of several profiled steps, the least of each row counts.

    The least is what other work on the machine disturbed least; on a GPU they are nearly equal.
    """

    def __init__(self) -> None:
        self._took: dict[Row, list[float]] = {}
        self.kernels: dict[Row, dict[str, list[float]]] = {}
        self.device = "cpu"
        self.steps = 0
        self.joined = self.ops = 0

    @property
    def seconds(self) -> dict[Row, float]:
        """Seconds a step by row."""
        return {
            row: min(took) if len(took) == self.steps else 0.0 for row, took in self._took.items()
        }

    def add(self, trail: Sequence[Row], events: Iterable[Any], on_gpu: bool) -> None:
        """Join one step: the rows in the order of their calls, and the profiler's events."""
        self.device = "gpu" if on_gpu else "cpu"
        self.steps += 1
        named = [row for row in trail if row.name]
        joined = _join(named, sorted(events, key=lambda event: event.time_range.start))
        for row, event in joined:
            self.ops += row.makes
            if event is None:
                continue
            self.joined += row.makes
            launches = list(_kernels(event))
            took = sum(seconds for _, seconds in launches) if on_gpu else _own_seconds(event)
            steps = self._took.setdefault(row, [])
            steps.extend([0.0] * (self.steps - len(steps)))
            steps[-1] += took
            kept = self.kernels.setdefault(row, {})
            for name, seconds in launches:
                count = kept.setdefault(name, [0, 0.0])
                count[0] += 1
                count[1] += seconds

    def write(self, sink: Sink) -> None:
        """`precision.launch` events by row, and the fact `precision.time`."""
        for row, seconds in self.seconds.items():
            kernels = sorted(self.kernels[row].items(), key=lambda entry: entry[1][1], reverse=True)
            data = {
                "op": row.name,
                "kind": row.kind,
                "dtype": dtype_of(row),
                "module": row.site.module,
                "file": row.site.file,
                "line": row.site.line,
                "phase": row.site.phase,
                "cause": row.cause,
                "slow": slow_cause(row, self.kernels[row]),
                "seconds": seconds,
                "kernels": [[name, int(count), took] for name, (count, took) in kernels],
            }
            sink.event("precision.launch", data, id=str(row.number))
        sink.fact("precision.time", self.fact())

    def fact(self) -> Evidence | Unknown:
        """Seconds a step by dtype of the ops, by kind, of casts, and of fp32 by cause."""
        if not self.steps:
            return Unknown("no step was profiled")
        if self.joined < JOINED * self.ops:
            return Unknown(f"{self.joined} of {self.ops} ops were found in the profile")
        by: dict[str, dict[str, float]] = {"dtype": {}, "kind": {}, "cause": {}}
        seconds = self.seconds
        for row, took in seconds.items():
            dtype = dtype_of(row)
            keys = {"dtype": dtype, "kind": row.kind}
            if dtype in ("f32", "f64"):
                keys["cause"] = row.cause or "unexplained"
            for table, key in keys.items():
                by[table][key] = by[table].get(key, 0.0) + took
        value: dict[str, Any] = {
            "device": self.device,
            "seconds": sum(seconds.values()),
            "joined": self.joined / max(1, self.ops),
            **{f"by_{name}": table for name, table in by.items()},
        }
        return Evidence("precision.time", value, "s", "torch.profiler")


def dtype_of(row: Row) -> str:
    """The dtype that an op's time is counted under: that of its result, or of what it writes to."""
    floats = [dtype for dtype in row.outs[:1] or row.ins if dtype in FLOATS]
    return floats[0] if floats else "other"


def profiler(torch: Any, on_gpu: bool, shapes: bool = False) -> Any:
    """A profiler of ops, with kernels where there is a GPU."""
    kinds = torch.profiler.ProfilerActivity
    activities = [kinds.CPU, kinds.CUDA] if on_gpu else [kinds.CPU]
    return torch.profiler.profile(activities=activities, record_shapes=shapes)


def roots(profile: Any) -> Iterator[Any]:
    """The outermost events of the CPU side."""
    for event in profile.events():
        if event.cpu_parent is None and str(event.device_type).endswith("CPU"):
            yield event


def _join(trail: Sequence[Row], events: Sequence[Any]) -> list[tuple[Row, Any]]:
    """Each row of the trail with its event, None where there is none."""
    names = ["::".join(row.name.split(".")[:2]) for row in trail]
    found: list[tuple[Row, Any]] = []
    at = 0
    stack = list(reversed(events))
    while stack and at < len(trail):
        event = stack.pop()
        # the engine adds gradients up in place where no mode is on (docs/decisions/0004)
        if event.name in (names[at], f"{names[at]}_", names[at].removeprefix("aten::")):
            found.append((trail[at], event))
            at += 1
            continue
        # an op that left no event: its successor may be here
        if event.name in names[at + 1 : at + 3] and not _within(event, names[at]):
            skipped = names.index(event.name, at + 1)
            found.extend((row, None) for row in trail[at:skipped])
            found.append((trail[skipped], event))
            at = skipped + 1
            continue
        stack.extend(sorted(event.cpu_children, key=_start, reverse=True))
    return [*found, *((row, None) for row in trail[at:])]


def _start(event: Any) -> float:
    return float(event.time_range.start)


def _within(event: Any, name: str) -> bool:
    return any(child.name == name or _within(child, name) for child in event.cpu_children)


def _kernels(event: Any) -> Iterator[Launch]:
    for kernel in event.kernels:
        yield kernel.name, kernel.duration / 1e6
    for child in event.cpu_children:
        yield from _kernels(child)


def _own_seconds(event: Any) -> float:
    """Time of the innermost event of the same name: without the Python that looked at it."""
    inner = event
    while True:
        below = [
            child
            for outer in inner.cpu_children
            for child in (outer.cpu_children if outer.name == _MODE else (outer,))
        ]
        same = next((child for child in below if child.name == event.name), None)
        if same is None:
            return float(inner.time_range.elapsed_us()) / 1e6
        inner = same
