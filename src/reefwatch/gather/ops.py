"""The op layer: one dispatch mode, many listeners; on in examined steps only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reefwatch.gather.instrument import Instrument, Tools


class OpCall:
    """One dispatched op, as handed to `Instrument.on_op`. Reused between ops: keep nothing of it.

    `name` is `aten.mm.default`. `module`, `file`, `line` tell where the forward op came from, for
    a backward op too. `phase` is forward, backward, optimizer or setup. `autocast` is the state
    at the call (`bf16`, `f16`, `off`), `region` the dtype of the low-precision region around it
    or None.
    """

    __slots__ = (
        "args",
        "autocast",
        "file",
        "func",
        "kwargs",
        "line",
        "module",
        "name",
        "out",
        "phase",
        "region",
        "step",
    )
    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    out: Any
    name: str
    module: str
    file: str
    line: int
    phase: str
    autocast: str
    region: str | None
    step: int


class OpLayer:
    """The dispatch mode with its place in the mode stack. See docs/decisions/0001."""

    def __init__(self, tools: Tools, listeners: Sequence[Instrument]) -> None:
        self.phase = "setup"

    def enter(self, step: int) -> None:
        """Push the mode at the bottom of the calling thread's mode stack."""
        raise NotImplementedError

    def leave(self) -> None:
        """Take the mode off the calling thread's stack, wherever it lies; others stay in order."""
        raise NotImplementedError
