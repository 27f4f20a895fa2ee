"""What triage answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SCHEMA = 1


@dataclass(frozen=True)
class Diagnosis:
    """The layer that failed, the family if it is a known one, and what to do."""

    layer: str = "unknown"
    component: str = ""
    family: str | None = None
    title: str = ""
    kind: str = ""
    root_line: str = ""
    file: str = ""
    line_number: int = 0
    confidence: float = 0.0
    cause: str = ""
    fix: str = ""
    commands: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    doctor: str = ""
    """The look at the machine that would have told it beforehand."""
    checks: tuple[str, ...] = ()
    """Codes of the checks of `reefwatch doctor` that look at it."""
    also: tuple[Mapping[str, Any], ...] = ()
    """What else was seen: `{"what": "reporter" | "harmless" | "other" | "nearest" | "ruled out" |
    "collect" | "doctor", ...}`."""
    failed: bool = False
    """The log shows a failure; a warning alone is none."""

    @property
    def collect(self) -> tuple[str, ...]:
        """Commands whose output would make the answer surer."""
        return tuple(str(one["command"]) for one in self.also if one["what"] == "collect")

    def view(self) -> dict[str, Any]:
        """All of it, for `show`."""
        told = {
            key: getattr(self, key)
            for key in ("title", "kind", "commands", "doctor", "checks", "failed", "collect")
        }
        return {**self.plain(), **told, "fix": self.fix}

    def plain(self) -> dict[str, Any]:
        """As `reefwatch triage --json` prints it."""
        return {
            "schema": SCHEMA,
            "layer": self.layer,
            "component": self.component or None,
            "family": self.family,
            "root_line": self.root_line or None,
            "file": self.file or None,
            "line_number": self.line_number or None,
            "confidence": round(self.confidence, 2),
            "cause": self.cause,
            "fix": "\n".join(part for part in (self.fix, *self.commands) if part),
            "sources": list(self.sources),
            "also": [dict(one) for one in self.also],
        }
