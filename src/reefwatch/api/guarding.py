"""A watch that begins and ends with a trainer's own hooks: what all frameworks' doors share."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reefwatch.api.settings import CLAIMS, Settings
from reefwatch.core.fact import Evidence, Fact, Unknown
from reefwatch.core.finding import Severity, Verdict
from reefwatch.core.launch import Launch
from reefwatch.core.report import Report


@dataclass(frozen=True)
class Asked:
    """What a trainer was configured for, in its own words."""

    framework: str
    """Name and version: `lightning 2.6.1`."""
    asked: str | None
    """The precision as the script wrote it; None when that could not be seen."""
    chosen: str
    """The precision that the trainer says it trains in."""
    launch: Launch
    clip: Mapping[str, Any] | None = None
    """`{"limit", "algorithm"}`; None when nothing is to be clipped."""
    words: Mapping[str, Any] = field(default_factory=dict)
    """Strategy, devices, accumulation, compile: what else the record should tell."""

    @property
    def claim(self) -> str | None:
        """The claim that the precision makes; None for a word that is no claim of ours."""
        wanted = (self.asked or self.chosen).lower()
        wanted = {"no": "fp32", "bf16": "bf16-mixed", "fp16": "fp16-mixed", "16": "16-mixed"}.get(
            wanted, wanted
        )
        known = {word for words in CLAIMS.values() for word in words.split()}
        return wanted if wanted in known else None

    def facts(self) -> dict[str, Fact]:
        """`trainer.asked` and `trainer.precision`."""
        told = {"framework": self.framework, "clip": dict(self.clip or {}) or None, **self.words}
        precision: Fact = Unknown("what the script asked for could not be seen")
        if self.asked is not None:
            value = {"asked": self.asked, "chosen": self.chosen}
            precision = Evidence("trainer.precision", value, source=self.framework)
        return {
            "trainer.asked": Evidence("trainer.asked", told, source=self.framework),
            "trainer.precision": precision,
        }


class Guarding:
    """One training run under watch. When a watch is on already, that one is told and stays."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self.report: Report | None = None
        """None until the run is over, and on ranks other than 0."""
        self._session: Any = None
        self._ours = False

    @property
    def on(self) -> bool:
        """True between `begin` and `end`."""
        return self._session is not None

    @property
    def folder(self) -> Path | None:
        """Where the record lies."""
        return None if self._session is None else self._session.folder

    def begin(self, asked: Asked, out: str | os.PathLike[str] | None) -> None:
        """Start. Raises UsageError for wrong settings, nothing else."""
        from reefwatch.api.session import Session, running

        session = running()
        if session is None:
            wishes = dict(self.settings)
            wishes.setdefault("claim", asked.claim)
            wishes.setdefault("out", out)
            argv = list(sys.argv) or [""]
            name = os.path.splitext(os.path.basename(argv[0]))[0] or "notebook"
            session = Session(Settings.of(**wishes), argv, name, launched=asked.launch)
            session.start()
            self._ours = True
        self._session = session
        if asked.clip:
            session.option("clip", dict(asked.clip))
        session.tell("trainer", asked.facts)

    def gradients_ready(self, optimizer: Any) -> None:
        """The gradients of `optimizer` are complete; the trainer clips them next."""
        if self._session is not None:
            self._session.note("gradients_ready", optimizer)

    def so_far(self) -> dict[str, int] | None:
        """What is broken and unproven by now, on this rank; None when it cannot be said."""
        if self._session is None:
            return None
        report: Report | None = self._session.glance()
        return None if report is None else broken(report)

    def end(self, error: BaseException | None = None) -> Report | None:
        """Stop, judge and write the report; None on other ranks and under another watch."""
        from reefwatch.gather import runner

        session, self._session = self._session, None
        if session is None or not self._ours:
            return None
        words = None if error is None else runner.in_words(error)
        session.stop({"code": None, "exception": words})
        if session.launch.rank:
            return None
        report: Report = session.judge("watch")
        session.write(report, {})
        self.report = session.shown(report, None)
        return self.report


def broken(report: Report) -> dict[str, int]:
    """How many checks are broken at error and at warning level, and how many are unproven."""
    of = {"errors": 0, "warnings": 0, "unproven": 0}
    for outcome in report.outcomes:
        if outcome.verdict is Verdict.BROKEN:
            of["errors" if outcome.severity >= Severity.ERROR else "warnings"] += 1
        elif outcome.verdict is Verdict.UNPROVEN:
            of["unproven"] += 1
    return of


def screen(report: Report) -> str:
    """The report as an end screen without colour."""
    from reefwatch.show import text

    return text.render(report, color=False, width=100)
