"""What is known: a value with its source, or the reason why it is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, Union

Json: TypeAlias = Union[bool, int, float, str, Sequence["Json"], Mapping[str, "Json"], None]


class Grade(Enum):
    """How an evidence came to be known, strongest first."""

    MEASURED = "measured"
    BY_NAME = "by name"
    PREDICTED = "predicted"
    RECALLED = "recalled"

    @property
    def weakness(self) -> int:
        """Steps of severity that a finding on this evidence loses."""
        return {"measured": 0, "by name": 1, "predicted": 1, "recalled": 2}[self.value]


@dataclass(frozen=True)
class Evidence:
    """One thing that was measured or read."""

    name: str
    value: Json
    unit: str = ""
    source: str = ""
    grade: Grade = Grade.MEASURED


@dataclass(frozen=True)
class Unknown:
    """A thing that is not known, and why. An Unknown without a reason cannot be built."""

    reason: str

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise ValueError("an Unknown needs a reason")


Fact: TypeAlias = Union[Evidence, Unknown]
