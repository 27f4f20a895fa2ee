"""What is said about a claim: findings with evidence, and one verdict."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from math import isfinite

from reefwatch.core.fact import Evidence


class Severity(IntEnum):
    """How bad it is. A NOTE is said, but breaks no claim."""

    NOTE = 0
    WARNING = 1
    ERROR = 2


class Verdict(Enum):
    """What became of a claim."""

    HELD = "held"
    BROKEN = "broken"
    UNPROVEN = "unproven"
    ERRORED = "errored"


@dataclass(frozen=True)
class Place:
    """Where something was seen. Empty parts were not known."""

    module: str = ""
    op: str = ""
    file: str = ""
    line: int = 0
    step: int | None = None
    ranks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for part in (self.module, self.op, self.file):
            if not isinstance(part, str):
                raise TypeError(f"a part of a Place is text, not {part!r:.80}")
        for number in (self.line, 0 if self.step is None else self.step):
            if not isinstance(number, int):
                raise TypeError(f"a line and a step are numbers, not {number!r:.80}")

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.file else ""
        step = "" if self.step is None else f"step {self.step}"
        ranks = "rank " + ",".join(map(str, self.ranks)) if self.ranks else ""
        return ", ".join(part for part in (self.module, self.op, where, step, ranks) if part)


@dataclass(frozen=True)
class Finding:
    """One breach of a claim. Lower case, no blame, no exclamation mark."""

    message: str
    """What was observed, with value and unit."""
    evidence: tuple[Evidence, ...]
    place: Place = Place()
    claimed: str = ""
    """What was claimed instead, and by whom."""
    why: str = ""
    cost: str = ""
    fix: str = ""
    names: tuple[str, ...] = ()
    """All modules or parameters that it is about, where they are more than the place's one."""

    def __post_init__(self) -> None:
        if not self.evidence:
            raise ValueError("a Finding needs evidence")
        for text in (self.message, self.claimed, self.why, self.cost, self.fix, *self.names):
            if not isinstance(text, str):
                raise TypeError(f"a Finding says text, not {text!r:.80}")

    def severity(self, of_check: Severity) -> Severity:
        """The check's severity, lowered by the weakest evidence."""
        weakness = max(evidence.grade.weakness for evidence in self.evidence)
        return Severity(max(Severity.NOTE, of_check - weakness))


@dataclass(frozen=True)
class Coverage:
    """How much was examined: `seen` of `total` `what` (steps, modules, ops, seconds)."""

    what: str
    seen: float
    total: float

    def __post_init__(self) -> None:
        if not (isfinite(self.seen) and isfinite(self.total)):
            raise ValueError(f"a Coverage counts: {self.seen} of {self.total} {self.what}")

    @property
    def share(self) -> float:
        return self.seen / self.total if self.total else 0.0


@dataclass(frozen=True)
class Outcome:
    """What one check says of one run."""

    code: str
    title: str
    verdict: Verdict
    severity: Severity = Severity.NOTE
    """The highest severity among the findings that are not silenced."""
    findings: tuple[Finding, ...] = ()
    silenced: tuple[tuple[Finding, str], ...] = ()
    """Findings with the reason for which they are silenced."""
    reason: str = ""
    """Why it is unproven or errored; with `held`, a remark."""
    coverage: tuple[Coverage, ...] = ()
    contract: str = ""
    beneath: Verdict = Verdict.HELD
    """What is left when all findings are silenced: the worst verdict of the ranks without any."""
