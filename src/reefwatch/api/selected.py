"""The report over one record by some of the checks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from reefwatch.core.record import Record
from reefwatch.core.report import Report


def judged(
    command: str,
    record: Record,
    codes: Collection[str],
    facts: Mapping[str, Any] | None = None,
    remarks: tuple[str, ...] = (),
    silences: tuple[Any, ...] = (),
) -> Report:
    """The report of the checks with these codes."""
    from datetime import date

    from reefwatch.judge import engine, silence

    checks = [check for check in engine.load() if check.code in codes]
    outcomes, unclaimed = engine.judge([record], checks)
    outcomes, told = silence.apply(outcomes, silences, date.today())
    return Report(
        command, tuple(outcomes), unclaimed, (record,), (*remarks, *told), dict(facts or {})
    )
