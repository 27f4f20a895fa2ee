"""A profiler trace taken anywhere, as a record: what was launched, in which dtype, from where."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reefwatch.core.fact import Evidence, Fact, Unknown
from reefwatch.core.record import Event, Record
from reefwatch.data import kernels
from reefwatch.data.kernels import Kernel
from reefwatch.gather.precision.kineto import Events
from reefwatch.gather.precision.launches import Launches
from reefwatch.gather.precision.triton_cache import Cache

PLACES = 400
"""Rows whose place is looked up, the costliest first."""
_FRAME = re.compile(r"(?P<file>.+?)\((?P<line>\d+)\): (?P<name>.*)")
PRODUCTS = ("gemm", "conv", "attention")
_WORDS = {"f32": "fp32", "f64": "fp64", "bf16": "bf16", "f16": "fp16", "f8e4m3": "fp8"}
_WORDS |= {"f8e5m2": "fp8"}
_DEVICE_WORDS = (("amd", ("amd", "radeon", "instinct", "gfx")), ("nvidia", ("nvidia", "geforce")))


@dataclass
class Row:
    """Totals of one kernel under one op."""

    kernel: Kernel
    signature: tuple[str, tuple[str, ...], str]
    phase: str
    op: int
    """One of the ops, for its place."""
    attention: str = ""
    """How attention was computed, when the op lies inside an attention op."""
    calls: int = 0
    seconds: float = 0.0
    steps: set[int] = field(default_factory=set)
    module: str = ""
    file: str = ""
    line: int = 0

    @property
    def dtype(self) -> str:
        """By the kernel's name; where that does not tell, by the op's float operands."""
        if self.kernel.compute_dtype != kernels.UNKNOWN or self.kernel.role not in PRODUCTS:
            return self.kernel.compute_dtype
        return next((_WORDS[d] for d in self.signature[1][:3] if d in _WORDS), kernels.UNKNOWN)

    def as_dict(self) -> dict[str, Any]:
        """The data of a `trace.kernel` event."""
        op, dtypes, shapes = self.signature
        kernel = self.kernel
        return {
            "name": kernel.name,
            "library": kernel.library,
            "compute_dtype": kernel.compute_dtype,
            "accumulate_dtype": kernel.accumulate_dtype,
            "matrix_core": kernel.matrix_core,
            "naive": kernel.naive,
            "role": kernel.role,
            "op": op,
            "in": list(dtypes),
            "shapes": shapes,
            "phase": self.phase,
            "attention": self.attention,
            "calls": self.calls,
            "seconds": self.seconds,
            "steps": sorted(self.steps),
            "module": self.module,
            "file": self.file,
            "line": self.line,
        }


def read(path: Path, triton_cache: Path | None = None) -> Record:
    """The record of a trace file. Raises UnreadableTrace."""
    events = Events(path)
    launches = Launches()
    for event in events:
        launches.take(event)
    cache = None if triton_cache is None else Cache(triton_cache)
    rows = gathered(launches, cache, _kind(events.devices))
    seen = [row for row in rows if row.op >= 0]
    _places(path, launches, sorted(seen, key=lambda row: -row.seconds)[:PLACES])
    header = {"kind": "trace", "rank": 0, "world": 1, "script": path.name}
    facts = _facts(events, launches, rows)
    return Record(header, facts, tuple(_events(rows)))


def gathered(launches: Launches, cache: Cache | None = None, device: str = "") -> list[Row]:
    """Kernels by name, op, phase and way of attention, with their totals."""
    told = [kernels.classify(name) for name in launches.names.all]
    if cache is not None:
        told = [cache.decide(kernel, device) for kernel in told]
    rows: dict[tuple[int, int, str, str], Row] = {}
    for at, name in enumerate(launches.kernel_name):
        op = launches.op_of(at)
        phase, attention = launches.phase(op), ""
        if op >= 0:
            first = launches.forward_of(op) if phase == "backward" else op
            around = launches.attention.at(launches.op_thread[first], launches.op_when[first])
            attention = around[0] if around else ""
        signature = launches.op_signature[op] if op >= 0 else -1
        key = (name, signature, phase, attention)
        row = rows.get(key)
        if row is None:
            row = rows[key] = Row(told[name], launches.signature(op), phase, op, attention)
        row.calls += 1
        row.seconds += launches.kernel_time[at] / 1e6
        step = launches.step(op)
        if step is not None:
            row.steps.add(step)
    return list(rows.values())


def _events(rows: Iterable[Row]) -> Iterator[Event]:
    for number, row in enumerate(sorted(rows, key=lambda row: -row.seconds)):
        yield Event("trace.kernel", row.as_dict(), id=str(number))


# -- facts -----------------------------------------------------------------------------------


def _facts(events: Events, launches: Launches, rows: list[Row]) -> dict[str, Fact]:
    file: dict[str, Any] = {
        "name": events.path.name,
        "events": events.count,
        "bytes": events.path.stat().st_size,
    }
    told = {
        "dtypes": launches.typed,
        "places": launches.framed or bool(launches.stacks.all),
        "ops": len(launches.op_signature),
        "steps": len(launches.steps.values()),
    }
    facts: dict[str, Fact] = {
        "trace.file": Evidence("trace.file", file),
        "trace.told": Evidence("trace.told", told),
        "trace.device": _device(events.devices, rows),
    }
    seconds = sum(row.seconds for row in rows)
    if not rows:
        why = "the trace holds no kernel: only CPU events were recorded"
        if not launches.op_signature:
            why = "the trace holds neither ops nor kernels"
        names = ("kernels", "shares", "products", "attention", "convolution")
        for name in (*(f"trace.{name}" for name in names), "claim.precision"):
            facts[name] = Unknown(why)
        return facts
    count = sum(row.calls for row in rows)
    facts["trace.kernels"] = Evidence(
        "trace.kernels", {"count": count, "seconds": seconds}, "s", "kernel events"
    )
    facts["trace.shares"] = Evidence("trace.shares", shares(rows), "s", "kernel names")
    products = shares([row for row in rows if row.kernel.role in PRODUCTS])
    facts["trace.products"] = (
        Evidence("trace.products", products, "s", "kernel names")
        if products["role"]
        else Unknown("no kernel of a matmul, convolution or attention was seen in the trace")
    )
    facts["claim.precision"] = _claim(rows)
    facts["trace.attention"] = _present(
        "trace.attention",
        bool(launches.attention),
        "scaled dot product attention",
        bool(launches.op_signature),
    )
    convolution = any(
        row.kernel.role in ("conv", "im2col") or "conv" in row.signature[0] for row in rows
    )
    facts["trace.convolution"] = _present("trace.convolution", convolution, "convolution", True)
    return facts


def _present(name: str, seen: bool, what: str, told: bool) -> Fact:
    if not told:
        return Unknown("the trace holds no ops, so what launched its kernels is not known")
    return Evidence(name, seen, source="" if seen else f"the trace holds no {what}")


def _claim(rows: list[Row]) -> Fact:
    """What the trace itself speaks for; `--claim` overrides it. The value "" says: nothing.

    Counted in calls: one product that is slow because it fell back to fp32 would outweigh all
    others in time. Casts to the low dtype beside its products are autocast's mark.
    """
    calls: dict[str, int] = defaultdict(int)
    cast_to: set[str] = set()
    for row in rows:
        if row.kernel.role in PRODUCTS:
            calls[row.dtype] += row.calls
        elif row.kernel.role == "cast":
            cast_to.update(_WORDS.get(dtype, dtype) for dtype in row.signature[1])
    whole = sum(calls.values())
    for dtype, claim in (("bf16", "bf16-mixed"), ("fp16", "fp16-mixed")):
        share = calls[dtype] / whole if whole else 0.0
        if share >= 0.5 or (share >= 0.2 and dtype in cast_to):
            source = f"the trace: {calls[dtype]} of {whole} calls of products are in {dtype}"
            return Evidence("claim.precision", claim, source=source)
    why = "no --claim was given, and most products of the trace are not in bf16 or fp16"
    return Evidence("claim.precision", "", source=why)


def shares(rows: Iterable[Row]) -> dict[str, dict[str, float]]:
    """Device seconds by library, dtype, matrix units and role, the largest first."""
    totals: dict[str, dict[str, float]] = {
        key: defaultdict(float) for key in ("library", "compute_dtype", "matrix_core", "role")
    }
    for row in rows:
        for key, total in totals.items():
            word = row.dtype if key == "compute_dtype" else getattr(row.kernel, key)
            total[word] += row.seconds
    return {
        key: dict(sorted(total.items(), key=lambda pair: -pair[1])) for key, total in totals.items()
    }


def _kind(devices: list[Mapping[str, Any]]) -> str:
    """`amd`, `nvidia`, or "" when the trace's device names tell neither."""
    name = str(devices[0].get("name", "")).lower() if devices else ""
    return next((kind for kind, words in _DEVICE_WORDS if any(w in name for w in words)), "")


def _device(devices: list[Mapping[str, Any]], rows: list[Row]) -> Fact:
    kind = _kind(devices)
    libraries = {row.kernel.library for row in rows}
    if not kind and libraries & {"tensile", "miopen", "ck", "aotriton", "rccl"}:
        kind = "amd"
    elif not kind and libraries & {"cublas", "cudnn", "cutlass"}:
        kind = "nvidia"
    if not kind:
        return Unknown("the trace names no device, and its kernels do not tell one")
    name = str(devices[0].get("name", "")) if devices else ""
    return Evidence("trace.device", {"kind": kind, "name": name, "count": len(devices)})


# -- places ----------------------------------------------------------------------------------


@dataclass
class _Point:
    """A moment on a thread, and the innermost frames around it that were seen so far."""

    row: Row
    when: float
    started: float = -1.0
    modules: list[tuple[float, str]] = field(default_factory=list)


def _places(path: Path, launches: Launches, rows: list[Row]) -> None:
    """Fill in module, file and line from the Python frames of the trace, if it holds any."""
    points: dict[int, list[_Point]] = defaultdict(list)
    for row in rows:
        op = launches.forward_of(row.op) if row.phase == "backward" else row.op
        stack = launches.op_stack[op]
        if stack >= 0:
            row.file, row.line = _of_stack(launches.stacks.all[stack])
        points[launches.op_thread[op]].append(_Point(row, launches.op_when[op]))
    if not launches.framed:
        return
    for event in Events(path):
        if event.get("cat") == "python_function" and "dur" in event:
            thread = hash((event.get("pid"), event.get("tid")))
            if thread in points:
                _frame(event, points[thread])
    for some in points.values():
        for point in some:
            point.row.module = ".".join(name for _, name in sorted(point.modules))


def _frame(event: Mapping[str, Any], points: list[_Point]) -> None:
    start, name = float(event["ts"]), str(event.get("name", ""))
    end = start + float(event["dur"])
    inside = [point for point in points if start <= point.when <= end]
    if not inside:
        return
    if name.startswith("nn.Module: "):
        for point in inside:
            point.modules.append((start, name.removeprefix("nn.Module: ")))
        return
    frame = _FRAME.match(name)
    if frame is None or _is_library(frame["file"]):
        return
    for point in inside:
        if start >= point.started:
            point.started = start
            point.row.file, point.row.line = frame["file"], int(frame["line"])


def _of_stack(stack: str) -> tuple[str, int]:
    """The innermost own frame of a `Call stack` (frames parted by `;`, the innermost first)."""
    for text in stack.split(";"):
        frame = _FRAME.match(text.strip())
        if frame is not None and not _is_library(frame["file"]):
            return frame["file"], int(frame["line"])
    return "", 0


def _is_library(file: str) -> bool:
    """True for frames of torch and of Python itself, whose paths the profiler has shortened."""
    if "site-packages" in file or "dist-packages" in file or file.startswith("<"):
        return True
    first, *rest = file.replace("\\", "/").lstrip("/").split("/")
    if first in ("torch", "triton", "torch_tb_profiler"):
        return True
    name = first.removesuffix(".py")
    return name in sys.stdlib_module_names and (not rest or not file.startswith("/"))
