"""What unexamined steps cost keeps to a part of the budget, and the facts say what was passed."""

from __future__ import annotations

from reefwatch.gather.budget import Scheduler


def steady(look: float) -> Scheduler:
    """After 256 steady steps of 10 ms, where a look costs `look` seconds."""
    scheduler = Scheduler(0.0, 0.02, lambda: 0.0)
    for step in range(256):
        looking = scheduler.look(step, False)
        scheduler.step(0.01, False, 0.0, look if looking else 1e-6, False)
    return scheduler


def test_cheap_looks_are_taken_in_every_step() -> None:
    budget = steady(2e-5).facts()["watch.budget"]
    assert budget["looked"] == budget["of"] == 256


def test_dear_looks_are_passed_over_and_counted() -> None:
    budget = steady(1e-4).facts()["watch.budget"]
    assert 256 // 8 <= budget["looked"] < 256 // 4
    assert budget["of"] == 256
