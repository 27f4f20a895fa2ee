"""How instructions are declared: one row each, and the registry that keeps them.

A row of a lane table reads

    v_add3_u32 | u32 | u32 u32 u32 | a + b + c

mnemonic, what it writes, what it reads, and an expression over the operands a, b, c (numpy
arithmetic on all lanes; names from `arith`). `d` is the old value of the destination, `vcc` the
implicit carry mask. Two results are parted by `;`. A row `name+clamp` is the meaning under clamp.
What does not fit a row is declared with `@special`, as a function that emits Python for one
instruction. Either way the Emitter checks that each operand and each modifier was consumed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Special = Callable[[Any], None]  # takes the Emitter (emit.py, which reads this table)


@dataclass(frozen=True)
class Row:
    """The declaration of an instruction that works lane by lane (or on scalars)."""

    mnemonic: str
    writes: tuple[str, ...]
    reads: tuple[str, ...]
    results: tuple[str, ...]
    approximate: bool = False  # hardware may differ by a few ulp


class Table:
    """All declarations by mnemonic: lane rows, scalar rows and specials."""

    def __init__(self) -> None:
        self.lane: dict[str, Row] = {}
        self.scalar: dict[str, Row] = {}
        self.specials: dict[str, Special] = {}

    def lanes(self, text: str, approximate: bool = False) -> None:
        """Add rows that work on vector registers."""
        self._add(self.lane, text, approximate)

    def scalars(self, text: str) -> None:
        """Add rows that work on scalar registers."""
        self._add(self.scalar, text, False)

    def special(self, *mnemonics: str) -> Callable[[Special], Special]:
        """Declare what a function emits as the meaning of these mnemonics."""

        def declare(function: Special) -> Special:
            for mnemonic in mnemonics:
                self._fresh(mnemonic)
                self.specials[mnemonic] = function
            return function

        return declare

    def knows(self, mnemonic: str) -> bool:
        """Is there a declaration?"""
        return mnemonic in self.lane or mnemonic in self.scalar or mnemonic in self.specials

    def mnemonics(self) -> list[str]:
        """Every declared mnemonic, sorted."""
        names = {*self.lane, *self.scalar, *self.specials}
        return sorted(name for name in names if "+" not in name)

    def _fresh(self, mnemonic: str) -> None:
        if self.knows(mnemonic):
            raise ValueError(f"{mnemonic} is declared twice")

    def _add(self, rows: dict[str, Row], text: str, approximate: bool) -> None:
        for line in text.strip().split("\n"):
            if not line.strip():
                continue
            cells = [cell.strip() for cell in line.split("|", 3)]
            if len(cells) != 4:
                raise ValueError(f"not a row of four cells: {line.strip()}")
            name, writes, reads, expression = cells
            self._fresh(name)
            results = tuple(part.strip() for part in expression.split(";"))
            if len(results) != len(writes.split()):
                raise ValueError(f"{name}: one expression for each result")
            row = Row(name, tuple(writes.split()), tuple(reads.split()), results, approximate)
            rows[name] = row


TABLE = Table()
