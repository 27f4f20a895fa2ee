"""What is done when the run is over: stage, window, repro, twins."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from reefwatch.core.finding import Verdict

pytestmark = pytest.mark.serial


def through(x):
    y = torch.relu(x) * 3
    z = F.dropout(y, 0.3, training=False)
    z.mul_(4.0)
    return y + 1


def test_stage_op_and_line_of_a_lost_write(under, tmp_path):
    def program():
        torch.compile(through, backend="aot_eager")(torch.full((3, 5), 2.0))

    seen = under(program, locate=10_000.0)
    if not seen.rows:
        pytest.skip("this torch keeps the write")
    row = seen.rows[0]
    assert row["stage"] == "aotautograd"
    assert "dropout" in row["ops"]
    assert row["source"].startswith(__file__)
    assert row["alone"] == "WRONG"
    folder = Path(row["repro"]).parent
    assert {path.name for path in folder.iterdir()} == {
        "repro.py",
        "inputs.safetensors",
        "issue.md",
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", row["repro"]], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "WRONG"
    assert "aotautograd" in (folder / "issue.md").read_text()


def test_a_fault_of_the_backend_is_located_to_its_op_and_module(under, wrong):
    def program():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 6), nn.Softmax(-1))
        torch.compile(model, backend=wrong(F.relu, F.silu))(torch.randn(4, 5))

    row = under(program, locate=10_000.0).rows[0]
    assert row["stage"].startswith("the backend")
    assert row["ops"] == ["relu"]
    assert row["module"] == "1"
    assert row["alone"] in ("RIGHT", "an error")


def test_a_fault_that_needs_an_earlier_call_is_dynamos(under):
    class Slot:
        pass

    def pair(x, a, b):
        if a is b:
            x = x + 5
        a.k = 1
        b.k = 3
        return x * a.k

    def program():
        fast, one = torch.compile(pair, backend="eager"), Slot()
        fast(torch.ones(4), Slot(), Slot())
        fast(torch.ones(4), one, one)

    rows = under(program, locate=10_000.0).rows
    if not rows:
        pytest.skip("this torch guards identity")
    assert rows[0]["stage"] == "dynamo"


def test_casts_to_fewer_bits_run_in_the_repro(under, wrong):
    def program():
        with torch.autocast("cpu", torch.bfloat16):
            fast = torch.compile(nn.Linear(6, 6), backend=wrong(F.linear, twice))
            fast(torch.randn(3, 6))

    row = under(program, locate=10_000.0).rows[0]
    assert row["ops"] == ["linear"]
    text = Path(row["repro"]).read_text()
    assert "('cpu', 'bfloat16')" in text


def twice(x, weight, bias=None):
    return 2 * F.linear(x, weight, bias)


def test_rows_are_kept_where_nothing_may_be_located(under, wrong):
    def program():
        torch.compile(lambda x: torch.sin(x), backend=wrong(torch.sin, torch.cos))(torch.ones(2))

    seen = under(program, locate=0.0)
    assert seen.rows[0]["stage"] == ""
    assert "time" in seen.rows[0]["why"]
    assert seen.outcomes["COMP001"].verdict is Verdict.BROKEN
