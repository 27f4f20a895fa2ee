"""What gathering needs of the other rooms while a run goes on. The api hands these in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from reefwatch.core.fact import Fact


class Sink(Protocol):
    """Takes what is seen, at once and for good. Never raises: a full disk becomes a remark."""

    def fact(self, name: str, fact: Fact) -> None: ...

    def event(
        self, kind: str, data: Mapping[str, Any], *, step: int | None = None, id: str | None = None
    ) -> None: ...

    def tensor(self, name: str, raw: bytes, dtype: str, shape: tuple[int, ...]) -> None: ...


class Referee(Protocol):
    """Judges one row at once, in strict mode."""

    def breach(self, contract: str, row: Mapping[str, Any]) -> str | None:
        """The message when this row breaks the contract, else None."""
        ...


class ReferenceReader(Protocol):
    """Reads a recorded reference while the run goes on."""

    head: Mapping[str, Any]

    def rows(self) -> Iterator[Mapping[str, Any]]: ...

    def tensor(self, name: str) -> tuple[bytes, str, tuple[int, ...]] | None: ...


class ReferenceWriter(Protocol):
    """Takes a reference while the run goes on; it is there only when it is whole."""

    rows: int

    def about(self, **more: Any) -> None: ...

    def row(self, data: Mapping[str, Any]) -> None: ...

    def tensor(self, name: str, raw: bytes, dtype: str, shape: tuple[int, ...]) -> None: ...

    def close(self) -> None: ...

    def discard(self) -> None: ...
