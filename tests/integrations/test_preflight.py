"""The exact combination of a Trainer, tried before the training."""

from __future__ import annotations

import subprocess
import sys

import pytest

from reefwatch.api import preflight
from reefwatch.core.report import Report

PROGRAM = """
import sys, torch, lightning.pytorch as pl
from reefwatch.lightning import Guard, preflight

trainer = pl.Trainer(accelerator="cpu", logger=False, callbacks=[Guard()], {settings})
before = torch.get_rng_state()
told = preflight(trainer{more})
assert torch.equal(before, torch.get_rng_state())
print(told)
outcomes = told.report.outcomes if told.report else ()
broken = sorted(one.code for one in outcomes if one.verdict.value == "broken")
print("held", *sorted(one.code for one in outcomes if one.verdict.value == "held"))
print("OK" if told.ok else "NOT OK", broken)
"""


def told(settings: str, more: str = "") -> str:
    program = PROGRAM.format(settings=settings, more=more)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.serial
def test_a_sound_combination():
    said = told(
        'devices=1, precision="bf16-mixed", accumulate_grad_batches=2, gradient_clip_val=0.5'
    )
    assert said.splitlines()[-1] == "OK []"
    assert {"LOOP016", "NUM001"} <= set(said.splitlines()[-2].split())


@pytest.mark.serial
def test_two_processes():
    said = told('devices=2, strategy="ddp"')
    assert said.splitlines()[-1] == "OK []"
    assert "2 of 2 ranks" in said
    assert "DIST040" in said


@pytest.mark.serial
def test_another_precision_than_asked_is_told_before_the_training():
    said = told('devices=1, precision="16-mixed"')
    assert said.splitlines()[-1] == "NOT OK ['PREC005', 'PREC027']"  # autocast has another dtype
    assert "was asked for 16-mixed and trains in bf16-mixed" in said


def test_what_does_not_run_is_told():
    combination = {
        "precision": "no-such", "strategy": "auto", "accelerator": "cpu", "devices": 1,
        "devices_count": 1, "accumulate": 1, "clip": None, "algorithm": None, "compile": False,
    }  # fmt: skip
    tried = preflight.lightning(combination, (), 120.0)
    assert tried.report is None
    assert not tried.ok
    assert "no-such" in tried.refused
    assert "does not run here: ValueError" in str(tried)


def test_nothing_tried_is_not_ok():
    assert not preflight.Preflight({}, "", None, ("the strategy X is not known",)).ok
    assert preflight.Preflight({}, "", Report("report", ())).ok
