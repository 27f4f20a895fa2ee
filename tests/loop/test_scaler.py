"""What a GradScaler did is told without touching it."""

import sys

import torch
from torch.nn import functional as F

from reefwatch.core.fact import Unknown
from reefwatch.core.finding import Verdict


def scaled(bars, steps, first, fused, bad=()):
    def program():
        model = bars.MODELS["mlp"]()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=fused)
        scaler = torch.amp.GradScaler("cpu", init_scale=first)
        hasattr(scaler, "step")  # looking it up is no step
        for n in range(steps):
            x, y = model.batch()
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y) * (float("nan") if n in bad else 1.0)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

    return program


def fact(bars, program):
    record = sys.modules["loop_lab"].recorded(lambda: program)
    return record.fact("loop.scaler").value


def test_skips_are_counted_with_the_scale(bars):
    for fused in (False, True):
        value = fact(bars, scaled(bars, 10, 1024.0, fused, bad=(0, 1, 5)))
        assert (value["steps"], value["skipped"], value["initial"]) == (10, 3, 2)
        assert value["least"] == 128.0


def test_a_scaler_that_keeps_skipping_is_found(bars):
    outcome = bars.watched(lambda: scaled(bars, 20, 1024.0, False, bad=range(2, 20, 2)))["LOOP010"]
    assert outcome.findings[0].message.startswith("9 of 20 updates were skipped")


def test_without_a_scaler_no_claim_is_made(bars):
    outcomes = bars.watched(lambda: bars.Classify("mlp"))
    assert "LOOP009" not in outcomes and "LOOP010" not in outcomes


def test_a_scaler_whose_dtype_was_not_seen_is_unproven(bars):
    outcome = bars.watched(lambda: scaled(bars, 6, 1024.0, False))["LOOP009"]
    assert outcome.verdict is Verdict.UNPROVEN
    assert outcome.reason.startswith("no 16-bit autocast")


def test_a_scaler_unlike_torchs_is_stepped_all_the_same(bars, monkeypatch):
    monkeypatch.setattr("reefwatch.gather.loop.scaler._stepped", lambda scaler: 1 / 0)
    record = sys.modules["loop_lab"].recorded(lambda: scaled(bars, 3, 1024.0, False))
    assert record.fact("errored.loop.scaler").value["error"].startswith("ZeroDivisionError")
    assert isinstance(record.fact("loop.scaled"), Unknown)
