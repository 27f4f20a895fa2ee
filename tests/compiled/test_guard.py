"""Calls of compiled code held against the original, by compilers that are wrong on purpose."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from reefwatch.core.errors import Breach
from reefwatch.core.finding import Verdict

pytestmark = pytest.mark.serial
CODES = ("COMP001", "COMP003", "COMP004", "COMP005")


def test_right_code_is_held(under):
    def program():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
        fast = torch.compile(model, backend="aot_eager")
        for _ in range(3):
            fast(torch.randn(5, 6)).sum().backward()

    seen = under(program)
    assert seen.rows == []
    assert all(seen.outcomes[code].verdict is Verdict.HELD for code in (*CODES, "COMP002"))
    assert seen.calls.value["judged"] >= 2
    assert seen.calls.value["graded"] >= 2


def test_a_run_without_compile_makes_no_claim(under):
    seen = under(lambda: nn.Linear(2, 2)(torch.ones(1, 2)))
    assert "COMP001" not in seen.outcomes


def test_a_wrong_result_is_found(under, wrong):
    def program():
        fast = torch.compile(lambda x: F.relu(x) * 2, backend=wrong(F.relu, torch.abs))
        fast(torch.tensor([1.0, -2.0, 3.0]))

    seen = under(program)
    assert seen.outcomes["COMP001"].verdict is Verdict.BROKEN
    assert seen.rows[0]["wrong"] == 1
    assert "output[1] is 4 compiled and 0" in seen.rows[0]["text"]


class Half(torch.autograd.Function):
    """tanh with another slope."""

    @staticmethod
    def forward(ctx, x):
        return torch.tanh(x)

    @staticmethod
    def backward(ctx, sent):
        return sent * 0.5


def half(x):
    return Half.apply(x)


def test_a_wrong_gradient_is_found(under, wrong, monkeypatch):
    monkeypatch.setattr("reefwatch.gather.compiled.uses.Use.foreign", False)

    def program():
        fast = torch.compile(torch.nn.Tanh(), backend=wrong(torch.tanh, half))
        fast(torch.linspace(-1, 1, 7, requires_grad=True))

    seen = under(program)
    assert seen.outcomes["COMP001"].verdict is not Verdict.BROKEN
    assert seen.outcomes["COMP002"].verdict is Verdict.BROKEN
    assert seen.rows[0]["path"].startswith("gradient of args[0]")


def test_code_of_a_backend_of_the_programs_own_runs_as_often_as_without(under):
    ran = []

    def backend(graph, examples):
        def call(*args):
            ran.append(1)
            return graph.forward(*args)

        return call

    def program():
        fast = torch.compile(torch.nn.Tanh(), backend=backend)
        fast(torch.linspace(-1, 1, 7, requires_grad=True))

    seen = under(program)
    assert ran == [1]
    assert seen.outcomes["COMP001"].verdict is not Verdict.BROKEN
    assert seen.outcomes["COMP002"].verdict is Verdict.UNPROVEN


def test_a_lost_write_is_found(under):
    def backend(graph, examples):
        def call(*args):
            return graph.forward(*(a.clone() if torch.is_tensor(a) else a for a in args))

        return call

    def program():
        fast = torch.compile(lambda x: x.add_(1).sum(), backend=backend)
        fast(torch.zeros(4))

    seen = under(program)
    assert seen.outcomes["COMP003"].verdict is Verdict.BROKEN
    assert "only the original changed args[0]" in seen.rows[0]["text"]


def test_lost_python_state_is_found(under):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = 0

        def forward(self, x):
            if not torch.compiler.is_compiling():
                self.seen += 1
            return x * 2

    def program():
        torch.compile(Counting(), backend="eager")(torch.ones(3))

    seen = under(program)
    assert [row["path"] for row in seen.rows] == ["seen afterwards"]


def test_an_error_that_is_lost_is_found(under):
    def limited(x):
        if not torch.compiler.is_compiling() and x.sum() > 0:
            raise ValueError("too much")
        return x * 2

    seen = under(lambda: torch.compile(limited, backend="eager")(torch.ones(3)))
    assert seen.outcomes["COMP004"].verdict is Verdict.BROKEN
    assert "ValueError: too much" in seen.rows[0]["text"]


def test_an_error_on_both_sides_is_no_finding(under):
    def program():
        with pytest.raises(Exception):  # noqa: B017
            torch.compile(lambda x: x @ x, backend="eager")(torch.ones(3, 2))

    assert under(program).rows == []


def test_a_second_call_that_reuses_what_it_must_not(under):
    class Slot:
        pass

    def same(x, a, b):
        return x + 5 if a is b else x - 5

    def program():
        fast, one = torch.compile(same, backend="eager"), Slot()
        fast(torch.ones(2), Slot(), Slot())
        fast(torch.ones(2), one, one)

    seen = under(program)
    assert all(row["call"] == 2 for row in seen.rows)


def test_what_cannot_be_called_twice_is_unproven_and_untouched(under):
    left = []

    def program():
        numbers = iter(range(10))
        fast = torch.compile(lambda x, it: x + next(it), backend="eager")
        fast(torch.ones(2), numbers)
        left.append(next(numbers))

    seen = under(program)
    assert left == [1]
    assert seen.outcomes["COMP001"].verdict is Verdict.UNPROVEN
    assert "iterator" in seen.outcomes["COMP001"].reason


def test_the_original_writes_no_file_again(under, tmp_path):
    path = tmp_path / "log.txt"

    def logged(x):
        with open(path, "a") as file:
            file.write("called\n")
        return x * 2

    seen = under(lambda: torch.compile(logged, backend="eager")(torch.ones(2)))
    assert path.read_text() == "called\n"
    assert seen.outcomes["COMP001"].verdict is Verdict.UNPROVEN


def test_raise_raises_where_the_call_is_made(under, wrong):
    def program():
        fast = torch.compile(lambda x: torch.sin(x), backend=wrong(torch.sin, torch.cos))
        with pytest.raises(Breach, match="departs from the original"):
            fast(torch.ones(2))

    assert under(program, on_mismatch="raise").rows


def test_eager_puts_the_original_in_its_place(under, wrong):
    told = []

    def program():
        fast = torch.compile(lambda x: x.mul_(2) + 1, backend="eager")
        fast(torch.ones(2))
        fast = torch.compile(lambda x: torch.sin(x), backend=wrong(torch.sin, torch.cos))
        told.extend(float(fast(torch.zeros(1))) for _ in range(2))

    under(program, on_mismatch="eager")
    assert told == [0.0, 0.0]


def test_a_training_step_that_is_compiled_whole(under):
    def program():
        torch.manual_seed(0)
        model = nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(x):
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        fast = torch.compile(step, backend="aot_eager")
        for _ in range(4):
            fast(torch.randn(5, 4))

    seen = under(program)
    assert seen.rows == []


def test_casts_that_are_left_out(under):
    def rounded(x):
        return x.to(torch.float16).to(torch.float32) - x

    def backend(graph, examples):
        for node in graph.graph.nodes:
            if node.op == "call_method" and node.target == "to":
                node.args = (node.args[0], torch.float32)
        graph.recompile()
        return graph.forward

    def program():
        torch.compile(rounded, backend=backend)(torch.arange(1.0, 9.0) / 7)

    assert under(program).rows == []
    assert under(program, strict_casts=True).outcomes["COMP001"].verdict is Verdict.BROKEN


def test_breaks_and_limits_are_told_with_their_line(under):
    def broken(x):
        y = x * 2
        print("here")
        return y + 1

    def program():
        fast = torch.compile(broken, backend="eager")
        for _ in range(9):
            fast(torch.ones(2))
        many = torch.compile(lambda x, n: x * n, backend="eager", dynamic=False)
        for n in range(10):
            many(torch.ones(2 + n), "a" * n == "")

    with torch._dynamo.config.patch(recompile_limit=3):
        seen = under(program)
    breaks = [row for row in seen.frames if row["kind"] == "break"]
    assert breaks[0]["file"] == __file__
    assert seen.outcomes["COMP008"].findings[0].place.line == breaks[0]["line"]
    assert seen.outcomes["COMP007"].verdict is Verdict.BROKEN
    assert "recompile_limit" in seen.outcomes["COMP007"].findings[0].message
