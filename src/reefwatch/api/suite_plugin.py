"""The part of `reefwatch ci suite` that runs inside pytest: each test under a watch of its own.

Loaded with `-p reefwatch.api.suite_plugin`; writes one line of JSON per test to the file that
`REEFWATCH_SUITE` names. The tests and their outcomes are what they would be without it.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reefwatch.core.report import Report

_FILE = "REEFWATCH_SUITE"
_FIXTURES = {"no_fallback", "matches_fp64", "compiled_matches", "matches_reference"}
_pid = os.getpid()
_seen: dict[str, dict[str, Any]] = {}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: Any) -> Iterator[None]:
    """Watch the test's own part, not its fixtures."""
    own = _FIXTURES.intersection(getattr(item, "fixturenames", ()))
    if own or os.environ.get("REEFWATCH_SUITE_WATCH") == "0":  # those watch what they are given
        yield
        return
    from reefwatch.api.session import Session
    from reefwatch.api.settings import Settings

    folder = Path(tempfile.mkdtemp(prefix="reefwatch-suite-"))
    exam = float(os.environ.get("REEFWATCH_SUITE_EXAM", "2"))
    settings = Settings.of(exam=exam, budget=0.02, out=folder / "run")
    session = Session(settings, [item.nodeid], "suite")
    try:
        session.start()
        yield
        session.stop({"code": None, "exception": None})
        session.folder = None  # this process's record alone: children are their launchers' business
        if os.getpid() == _pid:
            _seen[item.nodeid] = _told(session.judge("watch"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _told(report: Report) -> dict[str, Any]:
    steps = report.records[0].facts.get("run.steps") if report.records else None
    return {
        "steps": (getattr(steps, "value", None) or {}).get("count", 0),
        "verdicts": {o.code: o.verdict.value for o in report.outcomes},
        "broken": [
            {
                "code": outcome.code,
                "severity": outcome.severity.name.lower(),
                "message": finding.message,
                "place": str(finding.place),
            }
            for outcome in report.outcomes
            if outcome.verdict.value == "broken"
            for finding in outcome.findings[:3]
        ],
    }


_parts: dict[str, dict[str, Any]] = {}


def pytest_runtest_logreport(report: Any) -> None:
    """The three phases of a test make one line."""
    part = _parts.setdefault(
        report.nodeid, {"test": report.nodeid, "outcome": "passed", "seconds": 0.0, "reason": ""}
    )
    part["seconds"] += float(report.duration)
    if report.failed:
        part["outcome"] = "failed" if report.when == "call" else "error"
        part["reason"] = _last_line(report)
    elif report.skipped and hasattr(report, "wasxfail"):
        part["outcome"], part["reason"] = "xfailed", str(report.wasxfail)
    elif report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        part["outcome"], part["reason"] = "skipped", str(reason).removeprefix("Skipped: ")
    if report.when == "teardown" and os.getpid() == _pid:
        _write({**_parts.pop(report.nodeid), **_seen.pop(report.nodeid, {})})


def pytest_collectreport(report: Any) -> None:
    """A file that cannot be collected is an error of its own."""
    if report.failed:
        reason = _last_line(report)
        _write({"test": report.nodeid, "outcome": "error", "seconds": 0.0, "reason": reason})
    elif report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        reason = str(reason).removeprefix("Skipped: ")
        _write({"test": report.nodeid, "outcome": "skipped", "seconds": 0.0, "reason": reason})


def _last_line(report: Any) -> str:
    crash = getattr(getattr(report.longrepr, "reprcrash", None), "message", None)
    text = str(crash or report.longrepr or "").strip()
    lines = [line for line in text.splitlines() if line.strip()]
    return (lines[0] if crash else lines[-1])[:300] if lines else ""


def _write(row: dict[str, Any]) -> None:
    path = os.environ.get(_FILE)
    if path:
        row["time"] = time.time()
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
