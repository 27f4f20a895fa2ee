"""Loops without a fault, in many styles, are not found at fault."""

import sys
from pathlib import Path

import pytest
import torch

from reefwatch.core.finding import Verdict

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts" / "verify"))
from loop_clean import LOOPS
from loop_lab import watched

sys.path.pop(0)


@pytest.mark.parametrize("name", LOOPS)
def test_a_clean_loop_breaks_nothing(name):
    torch.manual_seed(0)
    outcomes = watched(lambda: LOOPS[name])
    assert [
        (outcome.code, [finding.message for finding in outcome.findings])
        for outcome in outcomes.values()
        if outcome.verdict in (Verdict.BROKEN, Verdict.ERRORED)
    ] == []


@pytest.mark.parametrize("name", ["plain mlp", "zeroed in place", "updates inside backward"])
def test_a_clean_loop_is_seen_not_overlooked(name):
    torch.manual_seed(0)
    outcomes = watched(lambda: LOOPS[name])
    for code in ("LOOP001", "LOOP002", "LOOP003", "LOOP005", "LOOP006", "LOOP007"):
        assert outcomes[code].verdict is Verdict.HELD, code
        assert all(part.seen > 0 for part in outcomes[code].coverage)
