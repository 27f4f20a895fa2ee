"""The doors for Lightning and transformers: whole programs, with and without the guard."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

VERIFY = Path(__file__).parents[2] / "scripts" / "verify"


@pytest.fixture(scope="module")
def bars():
    spec = importlib.util.spec_from_file_location("integrations", VERIFY / "integrations.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CLIPPED = "--precision bf16-mixed --accumulate 2 --clip 0.1"


def test_a_guarded_training_has_the_bits_of_a_plain_one(bars):
    plain, watched = bars.program("lightning", CLIPPED), bars.guarded("lightning", CLIPPED)
    assert plain[0]["digest"] == watched[0]["digest"]
    assert watched[0]["broken"] == []
    assert " 0 broken" in watched[0]["verdicts"]


@pytest.mark.parametrize(
    "name",
    [
        "16-mixed on a CPU trains in bf16",
        "clipping at four times the limit (Lightning)",
        "fp16=True on a CPU trains in fp32",
        "a LoRA adapter that never changes",
    ],
)
def test_a_fault_is_found_through_the_framework(bars, name):
    framework, words, code, where = bars.FAULTS[name]
    (said,) = bars.guarded(framework, words)
    found = [one for one in said["broken"] if one["code"] == code]
    assert found, said["broken"]
    assert any(where in one["module"] + one["message"] for one in found)


@pytest.mark.serial
@pytest.mark.parametrize(
    "name",
    [
        "one replica changed by 1e-6 (Lightning)",
        "one replica changed by 1e-6 (transformers)",
        "a part compiled wrongly (Lightning)",
        "an MLP of LLaMA compiled wrongly",
    ],
)
def test_a_fault_of_ranks_or_compilers_is_found(bars, name):
    framework, words, code, where = bars.FAULTS[name]
    said, *_ = bars.guarded(framework, words)
    found = [one for one in said["broken"] if one["code"] == code]
    assert found, said["broken"]
    assert any(where in f"{one['module']} {one['file']}" for one in found)


def test_the_guard_steps_aside_from_barebones(tmp_path):
    program = f"""
import torch, lightning.pytorch as pl
from reefwatch.lightning import Guard
from lightning.pytorch.demos.boring_classes import BoringModel
guard = Guard(out={str(tmp_path / "out")!r})
pl.Trainer(barebones=True, max_steps=2, accelerator="cpu", callbacks=[guard]).fit(BoringModel())
print(guard.stepped_aside, guard.report)
"""
    import subprocess

    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert told.stdout.splitlines()[-1] == "Trainer(barebones=True) is for measuring raw speed None"
    assert not (tmp_path / "out").exists()


def test_a_wrong_word_is_told_at_once():
    import subprocess

    program = "from reefwatch.lightning import Guard; Guard(claim='bf17')"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "'bf17' is not a known claim" in told.stderr.splitlines()[-1]
