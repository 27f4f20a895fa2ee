"""docs/doctor.md names every family of failures once, and only checks that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reefwatch.core.check import Check
from reefwatch.core.finding import Severity
from reefwatch.judge import engine

ROOT = Path(__file__).parents[2]
FAMILIES = (ROOT / "tests/data/machine/families.txt").read_text().split()
PAGE = (ROOT / "docs/doctor.md").read_text()


def rows(head: str) -> dict[str, str]:
    """First cell -> second cell of the table under a head line."""
    table = PAGE.partition(head)[2].split("\n\n")[0]
    cells = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")]
    return {one[0]: one[1] for one in cells if len(one) > 1}


def test_every_family_is_covered_or_out_of_reach_with_a_reason() -> None:
    covered, out = rows("| families | check |"), rows("| families | why |")
    named = [name for cell in (*covered, *out) for name in cell.split(", ") if "---" not in name]
    assert sorted(named) == sorted(FAMILIES)
    assert all(len(why) > 20 for why in list(out.values())[1:])
    for told in list(covered.values())[1:]:
        assert re.search(r"MACH\d{3}", told)


def test_checks_named_there_exist() -> None:
    named = set(re.findall(r"MACH\d{3}", PAGE))
    assert named <= engine.codes()


@pytest.mark.parametrize("group", range(1, 11))
def test_every_group_has_checks(group: int) -> None:
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {group} ")]
    assert re.search(r"MACH\d{3}", line)


@pytest.mark.parametrize("check", engine.load("machine"), ids=lambda check: check.code)
def test_every_finding_says_for_which_use_and_what_to_do(check: Check) -> None:
    for case in check.bad:
        for finding in check.rule(case):
            assert finding.fix or check.severity is Severity.NOTE
            assert finding.why or finding.cost or check.severity is Severity.NOTE
