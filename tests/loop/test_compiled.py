"""Compiled models: what stays provable without seeing their ops."""

import pytest
import torch
from torch.nn import functional as F

from reefwatch.core.finding import Verdict


def compiled(bars, clear: bool):
    def program():
        torch._dynamo.reset()
        model = bars.MODELS["mlp"]()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        fast = torch.compile(model, backend="aot_eager")
        for _ in range(6):
            x, y = model.batch()
            if clear:
                optimizer.zero_grad()
            F.cross_entropy(fast(x), y).backward()
            optimizer.step()

    return bars.watched(lambda: program)


@pytest.mark.serial
def test_clearing_is_proven_around_compiled_code(bars):
    outcomes = compiled(bars, clear=True)
    for code in ("LOOP001", "LOOP002", "LOOP003", "LOOP005", "LOOP006"):
        assert outcomes[code].verdict is Verdict.HELD, code


@pytest.mark.serial
def test_a_missing_zero_grad_is_found_around_compiled_code(bars):
    outcome = compiled(bars, clear=False)["LOOP001"]
    assert outcome.verdict is Verdict.BROKEN
    assert "one.weight" in outcome.findings[0].message
