"""Runs single instructions on chosen register contents."""

from __future__ import annotations

from typing import Any

import numpy as np

from reefwatch.isa import blocks
from reefwatch.isa.emit import Emitter
from reefwatch.isa.generations import GFX11, Generation
from reefwatch.isa.memory import Arena
from reefwatch.isa.observers import Observers
from reefwatch.isa.state import State
from reefwatch.isa.text import EXEC, read_instruction

ROWS = 64


def fresh(waves: int = 1, generation: Generation = GFX11, rows: int = ROWS) -> State:
    """A state with zeroed registers and all lanes on."""
    st = State(generation.wave, 1, waves, rows, Arena())
    st.S[EXEC][...] = 0xFFFFFFFF
    st.S[EXEC + 1][...] = 0xFFFFFFFF if generation.wave == 64 else 0
    st.observers = Observers([])
    st.masks_changed()
    return st


def run(st: State, text: str, generation: Generation = GFX11, denormals: bool = True) -> Emitter:
    """Run the instructions of a text, one a line, on a state."""
    emitter = Emitter(generation, "full", denormals)
    for line in text.strip().split("\n"):
        st.masks_changed()
        emitter = Emitter(generation, st.mode, denormals)
        halves = line.strip().split("::")
        emitter.slot(tuple(read_instruction(half.strip(), 1) for half in halves))
        scope = {**blocks._NAMES, **emitter.constants}
        heads = "\n ".join(f"{name} = st.{name}" for name in blocks._LISTS)
        body = "\n ".join(emitter.lines) or "pass"
        with np.errstate(all="ignore"):
            exec(f"def block(st):\n {heads}\n {body}\n", scope)
            scope["block"](st)
    st.masks_changed()
    return emitter


def put(st: State, row: int, values: Any, bits: int = 32) -> None:
    """Set a vector register (two for 64 bits) of all waves and lanes from bit patterns."""
    flat = np.zeros(st.waves * st.lanes, np.uint64)
    flat[: len(values)] = np.asarray(values, np.uint64)
    shape = (st.waves, st.lanes)
    st.V[row] = (flat & np.uint64(0xFFFFFFFF)).astype(np.uint32).reshape(shape)
    if bits == 64:
        st.V[row + 1] = (flat >> np.uint64(32)).astype(np.uint32).reshape(shape)


def get(st: State, row: int, bits: int = 32) -> list[int]:
    """A vector register as Python integers, lane after lane."""
    low = st.V[row].ravel().astype(np.uint64)
    if bits == 64:
        low = low | st.V[row + 1].ravel().astype(np.uint64) << np.uint64(32)
    if bits == 16:
        low = low & np.uint64(0xFFFF)
    return [int(x) for x in low]


def mask_bits(st: State, row: int) -> list[int]:
    """A lane mask in scalars as 0 or 1 for each lane of all waves."""
    words = [st.S[row], st.S[row + 1]][: st.lanes // 32]
    return [int(words[n // 32][w]) >> n % 32 & 1 for w in range(st.waves) for n in range(st.lanes)]
