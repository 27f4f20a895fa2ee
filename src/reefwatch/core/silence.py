"""A finding that somebody has decided to live with, and how it is recognised again."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase

from reefwatch.core.finding import Finding

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_FOLDERS = re.compile(r"[^\s'\"(]*/")
_NUMBER = re.compile(r"(?<!\w)\d+(?:[.,]\d+)*(?:[eE][+-]?\d+)?")


@dataclass(frozen=True)
class Silence:
    """One decision not to hear about a code any more, with its reason."""

    code: str
    reason: str
    origin: str
    """Where it is written: `reefwatch.toml, silence 2`, `train.py:31`."""
    module: str = ""
    """Glob over the module path; empty for every module. All that a finding names must match."""
    file: str = ""
    """Glob over the file, from any folder down; empty for every file."""
    line: int = 0
    """Set by an inline comment, whose `file` is then a path and no glob."""
    expires: date | None = None
    """The last day on which it applies."""
    fingerprint: str = ""
    """Set by a baseline: only the finding with this fingerprint."""

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise ValueError("a Silence needs a reason")

    def expired(self, today: date) -> bool:
        return self.expires is not None and today > self.expires

    def covers(self, code: str, finding: Finding) -> bool:
        """True when this finding of this code is meant, whether expired or not."""
        place = finding.place
        if code != self.code:
            return False
        if self.fingerprint:
            return self.fingerprint == fingerprint(code, finding)
        if self.line:
            return (place.file, place.line) == (self.file, self.line)
        names = finding.names or (place.module,)
        every = all(_matches(name, self.module) for name in names)
        return every and _matches_path(place.file, self.file)


def _matches(text: str, glob: str) -> bool:
    return not glob or fnmatchcase(text, glob)


def _matches_path(path: str, glob: str) -> bool:
    return _matches(path, glob) or fnmatchcase(path, "*/" + glob.removeprefix("./"))


def fingerprint(code: str, finding: Finding) -> str:
    """16 hex digits that stay the same when lines shift, values change or the folder moves.

    Made of the code, the module, the op, the name of the file and the message without its numbers.
    """
    place = finding.place
    words = _NUMBER.sub("#", _FOLDERS.sub("", _ADDRESS.sub("#", finding.message)))
    parts = (code, place.module, place.op, re.split(r"[/\\]", place.file)[-1], words)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
