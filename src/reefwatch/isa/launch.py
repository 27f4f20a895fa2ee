"""The door: run a kernel's assembly text on arrays, and say what happened."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from reefwatch.isa.blocks import Refusal, translate
from reefwatch.isa.generations import generation_of
from reefwatch.isa.machine import Counts, Machine, Stopped
from reefwatch.isa.memory import BASE, Arena, Region
from reefwatch.isa.observers import ALL, Observers, Report
from reefwatch.isa.text import Argument, Program, read_program

MAX_WORKGROUPS = 1 << 20


@dataclass(frozen=True)
class Scalar:
    """A scalar argument with its format as `struct` writes it, such as "i", "q", "f", "d"."""

    value: int | float
    code: str = "i"


@dataclass
class Result:
    """What a run did. `held` is no verdict: compare the buffers."""

    buffers: list[Any] = field(default_factory=list)  # arguments that are arrays, in order
    reports: list[Report] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)  # not run, when there is any
    stopped: str = ""  # why the run ended early
    counts: Counts = field(default_factory=Counts)

    @property
    def ran(self) -> bool:
        """Did the program run to its end?"""
        return not self.refused and not self.stopped


@lru_cache(maxsize=64)
def parse(text: str) -> Program:
    """A program from its text; the last few are kept with their translations."""
    return read_program(text)


def run(
    program: str | Program,
    target: str,
    grid: Sequence[int],
    args: Sequence[Any],
    *,
    shared: int = 0,
    warps: int | None = None,
    observers: Iterable[str] = tuple(ALL),
    schedule: str | int = "lockstep",
    max_steps: int = 2_000_000,
) -> Result:
    """Run a kernel over a grid of workgroups.

    `args` are the kernel's arguments in order: arrays for pointers (copied, never changed; the
    copies after the run are `Result.buffers`), `Scalar`s or numpy scalars by value, None for a
    null pointer. `shared` is the dynamic LDS in bytes, `schedule` "lockstep" or the seed of a
    random wave order. Raises UnreadableProgram, UnknownTarget, ValueError for arguments that do
    not fit the program.
    """
    parsed = parse(program) if isinstance(program, str) else program
    translation = translate(parsed, generation_of(target))
    if translation.refusals:
        return Result(refused=list(translation.refusals))
    shape = _grid(grid)
    sizes = {
        "block_count": shape,
        "group_size": ((warps or parsed.waves) * translation.generation.wave, 1, 1),
    }
    arena, kernarg, placed = _arguments(parsed, args, sizes)
    watching = Observers([ALL[name]() for name in observers])
    fixed = parsed.descriptor.get("group_segment_fixed_size", 0)
    seed = None if schedule == "lockstep" else int(schedule)
    machine = Machine(translation, arena, kernarg, warps or parsed.waves, max(shared, fixed),
                      watching, seed, max_steps)  # fmt: skip
    stopped = ""
    try:
        machine.run(shape)
    except Stopped as stop:
        stopped = str(stop)
    buffers = [one.read(arena) for one in placed]
    return Result(buffers, list(watching.reports.values()), [], stopped, machine.counts)


def _grid(grid: Sequence[int]) -> tuple[int, int, int]:
    axes = [int(n) for n in grid] + [1] * (3 - len(grid))
    if len(axes) != 3 or min(axes) < 1:
        raise ValueError(f"a grid of {tuple(grid)} is not one to three positive numbers")
    if axes[0] * axes[1] * axes[2] > MAX_WORKGROUPS:
        raise ValueError(f"a grid of {tuple(grid)} is more than {MAX_WORKGROUPS} workgroups")
    return axes[0], axes[1], axes[2]


def _arguments(
    program: Program, args: Sequence[Any], sizes: dict[str, tuple[int, int, int]]
) -> tuple[Arena, int, list[_Placed]]:
    """Memory with all buffers, the address of the argument block, and each array's place."""
    arena = Arena()
    size = program.descriptor.get("kernarg_size", 0)
    block = bytearray(size)
    places = program.arguments
    if len(args) > len(places):
        raise ValueError(f"{len(args)} arguments for a kernel that takes {len(places)}")
    placed = _place_arrays(arena, args)
    for at, place in enumerate(places):
        if at in placed:
            data = _scalar_bytes(Scalar(placed[at].address, "Q"), place, at)
        elif at < len(args):
            data = _scalar_bytes(args[at], place, at)
        else:
            data = _hidden(arena, place, sizes)
        block[place.offset : place.offset + place.size] = data
    block += bytes(-len(block) % 64)  # a scalar load may be wider than what it needs
    kernarg = arena.add("the argument block", np.frombuffer(bytes(block), np.uint8), read_only=True)
    arena.close()
    return arena, kernarg, list(placed.values())


@dataclass(frozen=True)
class _Placed:
    """An array argument in the arena."""

    region: Region
    start: int  # byte of the region
    array: Any

    @property
    def address(self) -> int:
        return BASE + self.region.start + self.start

    def read(self, arena: Arena) -> Any:
        """The array as it is in the arena now."""
        raw = arena.read(self.region)[self.start : self.start + self.array.nbytes]
        return raw.view(self.array.dtype).reshape(self.array.shape).copy()


def _place_arrays(arena: Arena, args: Sequence[Any]) -> dict[int, _Placed]:
    """Arrays that share memory share it in the arena too; the others get a buffer each."""
    spans = []
    for at, array in enumerate(args):
        if isinstance(array, np.ndarray):
            if not array.flags.c_contiguous:
                raise ValueError(f"argument {at} is not contiguous: give the array that holds it")
            first = array.__array_interface__["data"][0]
            spans.append((first, first + array.nbytes, at, array))
    spans.sort(key=lambda span: span[:3])
    groups: list[list[tuple[int, int, int, Any]]] = []
    end = -1
    for span in spans:
        if groups and span[0] < end:
            groups[-1].append(span)
        else:
            groups.append([span])
            end = -1
        end = max(end, span[1])
    placed = {at: one for group in groups for at, one in _place_group(arena, group)}
    return {at: placed[at] for at in sorted(placed)}


def _place_group(arena: Arena, group: list[tuple[int, int, int, Any]]) -> list[tuple[int, _Placed]]:
    start, end = group[0][0], max(span[1] for span in group)
    whole = np.zeros(end - start, np.uint8)
    for first, _, _, array in group:
        whole[first - start :][: array.nbytes] = array.reshape(-1).view(np.uint8)
    name = "argument " + " and ".join(str(span[2]) for span in sorted(group, key=lambda s: s[2]))
    arena.add(name, whole)
    region = arena.regions[-1]
    return [(at, _Placed(region, first - start, array)) for first, _, at, array in group]


def _hidden(arena: Arena, place: Argument, sizes: dict[str, tuple[int, int, int]]) -> bytes:
    """Arguments beyond the given ones: scratch areas that Triton adds, and sizes of the launch."""
    name, _, axis = place.kind.removeprefix("hidden_").rpartition("_")
    if name in sizes:
        return sizes[name]["xyz".index(axis)].to_bytes(place.size, "little")
    if place.kind == "global_buffer":
        return struct.pack("<Q", arena.add("a hidden scratch buffer", np.zeros(256, np.uint8)))
    return bytes(place.size)


def _scalar_bytes(value: Any, place: Argument, at: int) -> bytes:
    if value is None:
        return bytes(place.size)
    if isinstance(value, Scalar):
        data = struct.pack("<" + value.code, value.value)
    elif isinstance(value, np.generic):
        data = value.tobytes()
    else:
        raise ValueError(f"argument {at} is a {type(value).__name__}: give an array or a Scalar")
    if len(data) != place.size:
        raise ValueError(f"argument {at} has {len(data)} bytes, the kernel takes {place.size}")
    return data
