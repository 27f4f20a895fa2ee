"""An evaluation is known by its mode, also where autocast casts the weights."""

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from reefwatch.core.finding import Verdict

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts" / "verify"))
from loop_lab import watched

sys.path.pop(0)


def loop(autocast: bool, right: bool):
    """Training in two epochs with a validation after each, which is in eval mode or forgets it."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def forward():
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            return model(torch.randn(4, 8))

    for _ in range(2):
        model.train()
        for _ in range(3):
            optimizer.zero_grad()
            forward().float().square().mean().backward()
            optimizer.step()
        model.train(not right)
        with torch.no_grad():
            for _ in range(2):
                forward().argmax(1)


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_evaluation_is_seen_with_and_without_autocast(autocast, right):
    outcomes = watched(lambda: lambda: loop(autocast, right))
    assert outcomes["LOOP012"].verdict is (Verdict.HELD if right else Verdict.BROKEN)


def late(right: bool, form: str):
    """An evaluation long after the exam has ended, and in no step that is examined."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    @torch.no_grad()
    def decorated():
        return model(torch.randn(4, 8)).argmax(1)

    def evaluate():
        if form == "decorator":
            return decorated()
        block = {
            "no_grad": torch.no_grad,
            "inference_mode": torch.inference_mode,
            "set_grad_enabled": lambda: torch.set_grad_enabled(False),
        }[form]
        with block():
            return model(torch.randn(4, 8)).argmax(1)

    for step in range(60):
        with torch.no_grad():  # bookkeeping in each step is no evaluation
            torch.ones(2).mean()
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
        if step in (45, 50):
            model.train(not right)
            evaluate()
            model.train()


@pytest.mark.parametrize("form", ["no_grad", "inference_mode", "decorator", "set_grad_enabled"])
@pytest.mark.parametrize("right", [False, True])
def test_evaluation_after_the_exam_is_seen(right, form):
    outcomes = watched(lambda: lambda: late(right, form), budget=1e-9)
    assert outcomes["LOOP012"].verdict is (Verdict.HELD if right else Verdict.BROKEN)


def gan_with_late_samples():
    """A generator in train mode makes pictures to look at, at a place first met after the exam."""
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8))
    critic = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1), nn.Linear(8, 1))
    make = torch.optim.Adam(generator.parameters(), 1e-3)
    judge = torch.optim.Adam(critic.parameters(), 1e-3)
    for step in range(60):
        make.zero_grad()
        (-critic(generator(torch.randn(4, 4))).mean()).backward()
        make.step()
        judge.zero_grad()
        with torch.no_grad():
            fake = generator(torch.randn(4, 4))
        (critic(fake).mean() - critic(torch.randn(4, 8)).mean()).backward()
        judge.step()
        if step in (45, 50):
            with torch.no_grad():
                generator(torch.randn(4, 4)).clamp(0, 1)


def batch_statistics_renewed():
    """`update_bn` on the trained model itself, after its weights were averaged into it."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(60):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
        if step in (4, 45):
            torch.optim.swa_utils.update_bn([torch.randn(4, 8) for _ in range(3)], model)


@pytest.mark.parametrize("program", [gan_with_late_samples, batch_statistics_renewed])
def test_train_mode_on_purpose_is_no_evaluation(program):
    outcomes = watched(lambda: program, budget=1e-9)
    assert outcomes["LOOP012"].verdict is not Verdict.BROKEN
