"""Go through a record's file line by line, and stop at the first that cannot be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from reefwatch.core.errors import UnreadableRecord
from reefwatch.store import lines, regular
from reefwatch.store.assembly import event_of, fact_of, header_of


@dataclass
class Scan:
    """A file's lines up to the first that cannot be trusted, and what is known of the rest."""

    rows: list[Mapping[str, Any]] = field(default_factory=list)
    ended: bool = False
    cut: bool = False
    damage: str = ""
    """In words, with the line."""
    damaged_line: int = 0
    distrusted: set[str] = field(default_factory=set)
    """Names of facts that are written after the damage."""


def scan(path: Path) -> Scan:
    """All that can be trusted of the file. Raises UnreadableRecord without a sound header."""
    with _opened(path) as file:
        raw_lines = _raw_lines(file, path)
        row, chain = _header(next(raw_lines, b""), path)
        found = Scan([row])
        for number, raw in enumerate(raw_lines, start=2):
            line = lines.unseal(raw)
            if line is None and not raw.endswith(b"\n") and len(raw) <= lines.LONGEST:
                found.cut = not found.ended
                if found.cut:
                    break
            said = _trusted(line, number, chain)
            if found.ended:
                said = f"something follows the end line {number - 1}"
            elif line is None and len(raw) > lines.LONGEST:
                said = f"line {number} is longer than {lines.LONGEST >> 20} MiB"
            if line is None or isinstance(said, str):
                _damage(found, number, str(said), line, [lines.unseal(raw) for raw in raw_lines])
                break
            chain = line.crc
            found.rows.append(said)
            found.ended = "end" in said
    return found


def _opened(path: Path) -> BinaryIO:
    try:
        return regular.opened(path)
    except (OSError, ValueError) as error:
        raise UnreadableRecord(f"{path}: {why(error)}") from None


def _raw_lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    try:
        while raw := file.readline(lines.LONGEST + 1):
            yield raw
    except OSError as error:
        raise UnreadableRecord(f"{path}: {why(error)}") from None


def _header(raw: bytes, path: Path) -> tuple[Mapping[str, Any], int]:
    """(the header, its checksum). Raises UnreadableRecord."""
    if not raw:
        raise UnreadableRecord(f"{path}: empty: the process ended before it wrote anything")
    if len(raw) > lines.LONGEST:
        raise UnreadableRecord(
            f"{path}: not a record (its first line is longer than {lines.LONGEST >> 20} MiB)"
        )
    try:
        row = lines.decode(raw.decode("ascii"))
    except ValueError:
        row = None
    line = lines.unseal(raw)
    if not isinstance(row, dict) or "schema" not in row:
        if line is not None and line.number > 1:
            raise UnreadableRecord(
                f"{path}: the header is missing (the file begins at line {line.number})"
            )
        if raw.startswith(b'{"schema":') and not raw.endswith(b"\n"):
            raise UnreadableRecord(f"{path}: cut short within its first line")
        raise UnreadableRecord(f"{path}: not a record")
    schema = row["schema"]
    if type(schema) is not int or schema < 1:
        raise UnreadableRecord(f"{path}: not a record (schema {str(schema)[:40]!r})")
    if schema > lines.SCHEMA:
        raise UnreadableRecord(
            f"{path}: written by a newer reefwatch (schema {schema}, this one reads {lines.SCHEMA})"
        )
    said = _trusted(line, 1, 0)
    if line is None or isinstance(said, str):
        raise UnreadableRecord(f"{path}: the header was changed")
    try:
        return header_of(said), line.crc
    except ValueError as error:
        raise UnreadableRecord(f"{path}: not a record ({error})") from None


def _trusted(line: lines.Line | None, number: int, chain: int) -> Mapping[str, Any] | str:
    """The row of a line that is what and where it was when written, else what is wrong with it."""
    if line is None:
        return f"line {number} is not a line of a record"
    if line.number != number or not line.follows(chain):
        return f"line {number} was changed"
    try:
        row = lines.decode(line.text)
        if "fact" in row:
            fact_of(row)
        elif "event" in row:
            event_of(row)
    except (KeyError, TypeError, ValueError):
        return f"line {number} cannot be understood"
    return row if isinstance(row, dict) else f"line {number} cannot be understood"


def _moved(line: lines.Line | None, number: int, rest: Sequence[lines.Line | None]) -> str:
    """How the numbers went wrong, or "" when they did not."""
    if line is None or line.number == number:
        return ""
    if line.number < number:
        return f"line {line.number} comes again after line {number - 1}"
    missing = set(range(number, min(line.number, number + len(rest) + 1)))
    later = {other.number for other in rest if other is not None}
    if missing & later:
        return f"lines are out of order: line {line.number} comes after line {number - 1}"
    if line.number == number + 1:
        return f"line {number} was removed"
    return f"lines {number} to {line.number - 1} were removed"


def _damage(
    found: Scan, number: int, said: str, line: lines.Line | None, rest: Sequence[lines.Line | None]
) -> None:
    """Note the damage, and which facts were written at it or after it."""
    if not found.ended:
        said = _moved(line, number, rest) or said
    found.damage, found.damaged_line, found.ended = said, number, False
    for later in (line, *rest):
        if later is None or '"fact"' not in later.text:
            continue
        try:
            name = lines.decode(later.text).get("fact")
        except (ValueError, AttributeError):
            continue
        if isinstance(name, str):
            found.distrusted.add(name)


def why(error: Exception) -> str:
    """What the system says went wrong, in lower case."""
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
