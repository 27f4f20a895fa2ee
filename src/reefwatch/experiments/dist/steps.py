"""One step of the experiment: the same list on every rank, in the same order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
STATES = ("right", "wrong", "unsupported", "error", "hang", "lost", "skipped")


@dataclass(frozen=True)
class Step:
    """Something that all ranks do together and each answers for."""

    phase: str
    name: str
    """Unique within the phase."""
    run: Callable[[Any], Row]
    """Takes the worker's `Bench`; the row has at least a `state`."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What the row says besides the answer: form, dtype, op."""
    group: tuple[int, ...] = ()
    """The ranks that take part; none for all."""
    patience: float = 1.0
    """Times the deadline."""


@dataclass
class Bench:
    """What steps share in one worker."""

    torch: Any
    device: Any
    rank: int
    world: int
    backend: str
    level: str
    store: Any
    """For what the ranks tell each other past the backend."""
    seed: int
    options: Mapping[str, Any]
    groups: dict[tuple[int, ...], Any] = field(default_factory=dict)
    """Process groups by their ranks; the world is None."""

    def tell_all(self, name: str, value: str, ranks: tuple[int, ...] = ()) -> list[str]:
        """What each rank (or each of `ranks`) says under a name, in their order; waits for all."""
        self.store.set(f"{name}/{self.rank}", value)
        keys = [f"{name}/{rank}" for rank in ranks or range(self.world)]
        return [raw.decode() for raw in self.store.multi_get(keys)]
