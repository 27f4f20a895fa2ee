"""Cuts a program into blocks, and translates a block to a Python function when first needed.

A block ends at a label, a branch, a barrier, the end, and after anything that writes EXEC: so the
lanes that take part are the same for all of a block, and each block has at most three texts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reefwatch.isa import arith, runtime
from reefwatch.isa import ops as _families  # noqa: F401 - declares the instructions
from reefwatch.isa.emit import Effect, Emitter, Refused
from reefwatch.isa.generations import Generation
from reefwatch.isa.text import EXEC, Program

_EXEC_BITS = 3 << EXEC
_NUMPY = [
    "add",
    "subtract",
    "multiply",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "where",
    "copyto",
    "asarray",
    "array",
    "full",
    "absolute",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "rint",
    "trunc",
    "ceil",
    "floor",
    "sqrt",
    "exp2",
    "log2",
    "isnan",
    "zeros_like",
    "ones_like",
    "ascontiguousarray",
]
_NAMES: dict[str, Any] = {name: getattr(np, name) for name in _NUMPY}
_NAMES |= {name: value for name, value in vars(arith).items() if not name.startswith("_")}
_NAMES |= {
    name: getattr(runtime, name)
    for name in ("lane_shape", "wide", "memory", "scalar_load", "lds", "pull_lanes", "push_lanes",
                 "permlane", "write_lane", "trap", "multiply_matrices")
}  # fmt: skip
_LISTS = ("U", "I", "F", "S", "SU", "SI", "SF", "X", "act",
          "lW", "hW", "lJ", "hJ", "lH", "hH")  # fmt: skip

Code = Callable[[Any], None]


@dataclass
class Block:
    """A run of instruction slots that always run together."""

    index: int
    first: int  # slot
    last: int  # slot after the last
    kind: str = "fall"  # how it ends: fall, exec, branch, barrier, signal, wait, end
    when: str = ""  # the condition of a branch, "branch" for always
    target: int = -1  # block that a taken branch goes to
    code: dict[str, Code] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)


@dataclass(frozen=True)
class Refusal:
    """Something that is not modelled: what, why, and where it stands first."""

    mnemonic: str
    reason: str
    line: int
    text: str


class Translation:
    """The blocks of a program for one generation."""

    def __init__(self, program: Program, generation: Generation) -> None:
        self.program = program
        self.generation = generation
        self.denormals = program.descriptor.get("float_denorm_mode_32", 3) == 3
        self.refusals: list[Refusal] = []
        self.approximate: set[str] = set()
        self.slot_effects = self._examine()
        self.blocks: list[Block] = []
        if not self.refusals:
            self.blocks = self._cut()
        self.rows = self._vector_rows()

    def _examine(self) -> list[list[Effect]]:
        """Emit every slot once for its effects; collect what is refused."""
        emitter = Emitter(self.generation, "full", self.denormals)
        seen: set[tuple[str, str]] = set()
        out = []
        for slot in self.program.slots:
            emitter.effects = []
            emitter.lines = []
            try:
                emitter.slot(slot)
            except Refused as refused:
                name = emitter.instruction.mnemonic
                if (name, str(refused)) not in seen:
                    seen.add((name, str(refused)))
                    self.refusals.append(
                        Refusal(name, str(refused), slot[0].line, emitter.instruction.text)
                    )
            out.append(emitter.effects)
        self.approximate = emitter.approximate
        self.refusals += self._modes()
        self.refusals += self._lost_branches(out)
        return out

    def _lost_branches(self, effects: list[list[Effect]]) -> list[Refusal]:
        """Branches to a label that is not in the text, or at its very end."""
        labels, count = self.program.labels, len(self.program.slots)
        lost = []
        for effect in (effect for slot in effects for effect in slot if effect.kind == "branch"):
            label = effect.facts["label"]
            if labels.get(label, count) >= count:
                made = effect.instruction
                reason = f"a branch to {label}, where no code is"
                lost.append(Refusal(made.mnemonic, reason, made.line, made.text))
        return lost

    def _modes(self) -> list[Refusal]:
        """Floating-point modes of the descriptor that are not modelled."""
        descriptor = self.program.descriptor
        wanted = {
            "float_round_mode_32": (0,), "float_round_mode_16_64": (0,),
            "float_denorm_mode_32": (0, 3), "float_denorm_mode_16_64": (3,),
            "dx10_clamp": (1,), "fp16_overflow": (0,),
        }  # fmt: skip
        return [
            Refusal(f".amdhsa_{name}", f"mode {descriptor[name]} is not modelled", 0, "")
            for name, known in wanted.items()
            if descriptor.get(name, known[-1]) not in known
        ]

    def _vector_rows(self) -> int:
        top = 0
        for effects in self.slot_effects:
            for effect in effects:
                top = max(top, (effect.reads | effect.writes).bit_length())
        return max((top + 1) // 2, self.program.descriptor.get("next_free_vgpr", 1), 4)

    def _cut(self) -> list[Block]:
        slots = self.program.slots
        starts = {0, *self.program.labels.values()}
        ends: dict[int, tuple[str, Effect]] = {}
        for at, effects in enumerate(self.slot_effects):
            last = effects[-1]
            if last.kind in ("branch", "barrier", "signal", "wait", "end"):
                ends[at] = (last.kind, last)
            elif any(effect.scalar_writes & _EXEC_BITS for effect in effects):
                ends[at] = ("exec", last)
        starts |= {at + 1 for at in ends}
        order = sorted(start for start in starts if start < len(slots))
        at_slot = {start: index for index, start in enumerate(order)}
        blocks = []
        for index, start in enumerate(order):
            stop = order[index + 1] if index + 1 < len(order) else len(slots)
            block = Block(index, start, stop)
            if stop - 1 in ends:
                block.kind, effect = ends[stop - 1]
                if block.kind == "branch":
                    block.when = effect.facts["when"]
                    block.target = at_slot[self.program.labels[effect.facts["label"]]]
            for slot in range(start, stop):
                block.effects += self.slot_effects[slot]
            blocks.append(block)
        return blocks

    def code(self, block: Block, mode: str) -> Code:
        """The block as a function on a State, for one mode; translated once."""
        if mode not in block.code:
            block.code[mode] = self._translate(block, mode)
        return block.code[mode]

    def _translate(self, block: Block, mode: str) -> Code:
        emitter = Emitter(self.generation, mode, self.denormals)
        for slot in range(block.first, block.last):
            emitter.slot(self.program.slots[slot])
        lines = emitter.lines
        if not lines:
            return _nothing
        body = "\n ".join(lines)
        heads = [f"{name} = st.{name}" for name in _LISTS if f"{name}[" in body or name in "X act"]
        name = f"{self.program.name}:{block.first}:{mode}"
        text = "def block(st):\n " + "\n ".join(heads) + "\n " + body
        scope = {**_NAMES, **emitter.constants}
        exec(compile(text, name, "exec"), scope)
        made: Code = scope["block"]
        return made


def _nothing(st: Any) -> None:
    """A block of waits and hints only."""


def translate(program: Program, generation: Generation) -> Translation:
    """The translation of a program, kept with it."""
    key = f"translation {generation.name}"
    if key not in program.cache:
        program.cache[key] = Translation(program, generation)
    made = program.cache[key]
    assert isinstance(made, Translation)
    return made
