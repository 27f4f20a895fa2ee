"""What a run that was killed leaves, and what is no fault of a healthy one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import reefwatch
from reefwatch.core.fact import Evidence

KILLED = """
import os, signal, torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(100):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    if step == {last}:
        os.kill(os.getpid(), signal.{name})
"""


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_a_killed_run_leaves_what_its_exam_found(tmp_path: Path, name: str) -> None:
    (tmp_path / "train.py").write_text(KILLED.format(last=60, name=name))
    environ = {**os.environ, "PYTHONPATH": str(Path(reefwatch.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-m", "reefwatch", "run", "--out=out", "train.py"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-getattr(signal, name), b"", b"")
    report = reefwatch.report(tmp_path / "out")
    held = {o.code for o in report.outcomes if o.verdict.value == "held"}
    assert {"LOOP001", "LOOP002", "LOOP006", "LOOP007", "LOOP008", "LOOP011", "LOOP013"} <= held
    (record,) = report.records
    steps = record.fact("run.steps")
    assert isinstance(steps, Evidence)
    count = steps.value["count"]  # type: ignore[index,call-overload]
    assert 45 <= count <= 61
    (remark,) = report.remarks
    assert remark.endswith(f"; what is said covers its first {count} steps")
    changes = next(o for o in report.outcomes if o.code == "LOOP005")
    assert changes.verdict.value == "unproven"


def outcomes(report: reefwatch.Report) -> dict[str, str]:
    return {outcome.code: outcome.verdict.value for outcome in report.outcomes}


def train(steps: int, step: object) -> reefwatch.Report:
    with reefwatch.watch() as watch:
        for _ in range(steps):
            step()  # type: ignore[operator]
    return watch.report


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_episodes_that_begin_at_the_same_place_are_new_data() -> None:
    torch.manual_seed(0)
    policy = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(policy.parameters(), 0.01)

    def episode() -> None:
        state, total = torch.zeros(3), torch.zeros(())
        for _ in range(3):
            total = total + policy(state).square().sum()
            state = torch.randn(3)
        optimizer.zero_grad()
        total.backward()
        optimizer.step()

    assert outcomes(train(8, episode))["LOOP013"] == "held"


def test_the_same_calls_in_each_step_are_the_same_data() -> None:
    model, data = torch.nn.Linear(3, 2), torch.randn(2, 4, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def step() -> None:
        optimizer.zero_grad()
        sum(model(half).square().mean() for half in data.unbind()).backward()
        optimizer.step()

    report = train(8, step)
    assert outcomes(report)["LOOP013"] == "broken"


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_are_no_fault_of_ours(layout: torch.layout) -> None:
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step() -> None:
        parts = [torch.randn(2, 4), torch.randn(3, 4)]
        out = model(torch.nested.nested_tensor(parts, layout=layout))
        optimizer.zero_grad()
        torch.nested.to_padded_tensor(out, 0.0).square().mean().backward()
        optimizer.step()

    report = train(6, step)
    assert "errored" not in outcomes(report).values()
    ops = report.records[0].fact("precision.ops")
    assert isinstance(ops, Evidence)
    unseen = ops.value["unseen"]  # type: ignore[index,call-overload]
    what = "the size of products of nested tensors"
    assert any(what in reason for reason in unseen) is (layout is torch.strided)


@pytest.mark.serial
def test_a_compiled_forward_is_no_evaluation() -> None:
    torch.manual_seed(0)
    parts = (torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
    model = torch.nn.Sequential(*parts)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    compiled = torch.compile(model, backend="aot_eager")

    def step() -> None:
        optimizer.zero_grad()
        compiled(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()

    assert outcomes(train(10, step))["LOOP012"] == "unproven"
    torch._dynamo.reset()
