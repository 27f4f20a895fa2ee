"""Numbers and lines of kernel files, and how an inventory tells what it does not know."""

from __future__ import annotations

import re
from typing import TypeVar

from reefwatch.core.fact import Evidence, Fact, Grade, Json, Unknown

MAX_U64 = (1 << 64) - 1
_WHOLE = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_HEX = re.compile(r"(?:0x)?([0-9a-fA-F]{1,16})", re.ASCII)
_T = TypeVar("_T")


def whole(text: str | Unknown, what: str, low: int = 0, high: int = MAX_U64) -> int | Unknown:
    """A decimal number of `low` to `high`; Unknown that names `what` for anything else."""
    if isinstance(text, Unknown):
        return text
    found = _WHOLE.fullmatch(text.strip())
    if found is None or not low <= int(found[0]) <= high:
        return Unknown(f"{what} holds {text.strip()[:40]!r}, which is no such number")
    return int(found[0])


def hexadecimal(text: str | Unknown, what: str, high: int = MAX_U64) -> int | Unknown:
    """A hexadecimal number, with or without 0x."""
    if isinstance(text, Unknown):
        return text
    found = _HEX.fullmatch(text.strip())
    if found is None or int(found[1], 16) > high:
        return Unknown(f"{what} holds {text.strip()[:40]!r}, which is no such number")
    return int(found[1], 16)


def pairs(text: str | Unknown, sign: str | None = None) -> dict[str, str]:
    """`key value` or `KEY=value` lines; what has another shape is left out, a later one wins."""
    if isinstance(text, Unknown):
        return {}
    split = (line.split(sign, 1) for line in text.splitlines())
    return {part[0].strip(): part[1].strip() for part in split if len(part) == 2}


def known(value: _T | Unknown, default: _T) -> _T:
    """The value, or the default when it is not known."""
    return default if isinstance(value, Unknown) else value


def told(value: object) -> Json:
    """A value as an inventory holds it: `{"unknown": reason}` where it is not known."""
    if isinstance(value, Unknown):
        return {"unknown": value.reason}
    if isinstance(value, dict):
        return {str(key): told(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [told(part) for part in value]
    assert value is None or isinstance(value, (bool, int, float, str)), type(value)
    return value


def fact(name: str, value: object, source: str, grade: Grade = Grade.MEASURED) -> Fact:
    """The fact of that name; an Unknown stays one."""
    if isinstance(value, Unknown):
        return value
    return Evidence(name, told(value), source=source, grade=grade)
