"""All outcomes of one command, and the exit code that follows from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reefwatch.core.finding import Outcome, Severity, Verdict
from reefwatch.core.record import Record

SCHEMA = 1
"""Version of the JSON of all verbs."""


@dataclass(frozen=True)
class Report:
    """What a command has to say. Everything shown derives from it."""

    command: str
    outcomes: tuple[Outcome, ...]
    unclaimed: Mapping[str, str] = field(default_factory=dict)
    """Codes whose claim this run does not make, with the reason."""
    records: tuple[Record, ...] = ()
    remarks: tuple[str, ...] = ()
    """What the reader must know besides: missing ranks, unused silences, a damaged record."""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def count(self) -> Counter[Verdict]:
        return Counter(outcome.verdict for outcome in self.outcomes)

    def last_line(self) -> str:
        """`5 held, 1 broken, 3 unproven`, with `errored` when there is one."""
        count = self.count()
        words = [Verdict.HELD, Verdict.BROKEN, Verdict.UNPROVEN]
        if count[Verdict.ERRORED]:
            words.append(Verdict.ERRORED)
        return ", ".join(f"{count[word]} {word.value}" for word in words)


@dataclass(frozen=True)
class ExitPolicy:
    """How verdicts become an exit code."""

    threshold: Severity = Severity.ERROR
    require_proof: bool = False
    fail_internal: bool = False
    script_only: bool = False


def exit_code(report: Report, policy: ExitPolicy, script: int = 0) -> int:
    """The script's own code when it is not 0; else 3 broken, 4 unproven, 2 errored, 0."""
    if script != 0 or policy.script_only:
        return script
    if any(o.verdict is Verdict.BROKEN and o.severity >= policy.threshold for o in report.outcomes):
        return 3
    count = report.count()
    if policy.require_proof and (count[Verdict.UNPROVEN] or count[Verdict.ERRORED]):
        return 4
    if policy.fail_internal and count[Verdict.ERRORED]:
        return 2
    return 0
