"""What a call may touch besides tensors is as after one call, however often it was made again."""

from __future__ import annotations

import logging
import threading
from array import array
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from reefwatch.core.finding import Verdict
from reefwatch.gather.compiled import doors
from reefwatch.gather.compiled.effects import held_back
from reefwatch.gather.compiled.trial import Rules, Trial, judge_again, refused

pytestmark = pytest.mark.serial
named: list[int] = []
table = {"k": 2}
hits: list[str] = []


class Registry:
    count = 0
    rows: dict[str, int] = {}  # noqa: RUF012

    @classmethod
    def put(cls, key):
        cls.count += 1
        cls.rows[key] = cls.count


class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        hits.append("forward")
        return x.clamp(-1, 1)

    @staticmethod
    def backward(ctx, sent):
        hits.append("backward")
        return sent


def twice(function, *args):
    """Run a call again as the guard does; the trial."""
    trial = Trial(function, args, {})
    assert not trial.reason
    trial.run(function)
    return trial


def test_a_list_that_is_a_global_stays_itself_and_as_it_was():
    def call(x):
        named.append(len(named))
        table["k"] += 1
        return x * table["k"]

    kept = named, table
    trial = Trial(call, (torch.ones(2),), {})
    assert float(call(torch.ones(1))) == 3
    found = trial.run(call)
    assert float(found.tensors["output"][0]) == 3
    assert found.plain["named[0] afterwards"] == 0
    assert (named, table) == ([0], {"k": 3})
    assert kept[0] is named
    assert kept[1] is table
    named.clear()
    table["k"] = 2


def test_classes_that_a_call_names():
    def call(x):
        Registry.put("a")
        return Clip.apply(x) + Registry.count

    twice(call, torch.ones(2))
    assert (Registry.count, Registry.rows, hits) == (0, {}, [])


def test_a_custom_op_of_the_programs_own():
    ran = []

    @torch.library.custom_op("reefwatch_tests::counted", mutates_args=())
    def counted(x: torch.Tensor) -> torch.Tensor:
        ran.append(1)
        return x * 2

    twice(lambda x: torch.ops.reefwatch_tests.counted(x), torch.ones(2))
    assert ran == []


def test_a_global_hook_of_modules():
    seen = []
    hook = nn.modules.module.register_module_forward_hook(lambda *given: seen.append(1))
    try:
        twice(nn.Linear(2, 2), torch.ones(1, 2))
    finally:
        hook.remove()
    assert seen == []


def test_arrays_and_generators():
    numpy = pytest.importorskip("numpy")
    held = bytearray(), array("i"), numpy.zeros(3), torch.Generator().manual_seed(1)
    state = held[3].get_state()

    def call(x):
        held[0].append(1)
        held[1].append(1)
        held[2][0] += 1
        return x + torch.rand(2, generator=held[3])

    twice(call, torch.ones(2))
    assert (len(held[0]), len(held[1]), held[2].sum()) == (0, 0, 0)
    assert torch.equal(held[3].get_state(), state)


def test_what_is_logged_is_not_logged_again():
    told = []

    class Handler(logging.Handler):
        def emit(self, record):
            told.append(record)

    logger = logging.getLogger("reefwatch.tests.compiled")
    logger.addHandler(Handler())

    def call(x):
        logging.getLogger("reefwatch.tests.compiled").error("here")
        return x

    twice(call, torch.ones(1))
    assert told == []


@pytest.mark.parametrize("caught", [False, True])
def test_files_are_not_written_whatever_writes_them(tmp_path, caught):
    def call(x):
        try:
            Path(tmp_path, "log").write_text("x")
        except doors.Outside:
            if not caught:
                raise
        return x

    trial = Trial(call, (torch.ones(1),), {})
    with pytest.raises(doors.Outside, match="writes a file"):
        trial.run(call)
    assert list(tmp_path.iterdir()) == []


def test_a_module_that_is_imported_late_is_imported_whole(tmp_path, monkeypatch):
    Path(tmp_path, "reefwatch_late.py").write_text(
        "import pathlib\npathlib.Path(__file__).with_suffix('.seen').write_text('x')\nDONE = 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def call(x):
        import reefwatch_late

        return x + reefwatch_late.DONE

    trial = twice(call, torch.ones(1))
    assert float(trial.run(call).tensors["output"]) == 2


def test_other_threads_print_and_write_meanwhile(tmp_path, capsys):
    def other():
        print("other")
        Path(tmp_path, "other").write_text("x")

    with held_back(True) as printed:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        print("mine")
    assert printed.getvalue() == "mine\n"
    assert capsys.readouterr().out == "other\n"
    assert Path(tmp_path, "other").read_text() == "x"


def test_checkpointing_counts_what_it_would_without(under):
    gradients = []

    def program():
        torch.manual_seed(0)
        layer = nn.Linear(3, 3)
        fast = torch.compile(layer, backend="aot_eager")
        x = torch.randn(2, 3, requires_grad=True)
        checkpoint(lambda x: fast(x).sin(), x, use_reentrant=False).sum().backward()
        gradients.append(layer.weight.grad)

    seen = under(program)
    program()
    assert torch.equal(*gradients)
    assert seen.rows == []


def test_an_optimizer_whose_state_is_keyed_by_tensors():
    layer = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    layer(torch.ones(1, 3)).sum().backward()

    def call():
        optimizer.step()

    trial = Trial(call, (), {}, whole=True)
    before = layer.weight.detach().clone()
    trial.run(call)
    assert torch.equal(layer.weight, before)
    assert not optimizer.state


@pytest.mark.parametrize("how", ["fullgraph", "stance"])
def test_what_the_compiler_refuses_is_unproven_not_wrong(under, how):
    def broken(x):
        torch._dynamo.graph_break()
        return x + 1

    def program():
        if how == "fullgraph":
            fast, raised = torch.compile(broken, backend="eager", fullgraph=True), Exception
            with pytest.raises(raised):
                fast(torch.ones(2))
            return
        fast = torch.compile(lambda x: x + 1, backend="eager")
        with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError):
            fast(torch.ones(3))

    seen = under(program)
    assert seen.rows == []
    assert seen.outcomes["COMP004"].verdict is Verdict.UNPROVEN
    assert "could not be compiled" in seen.outcomes["COMP004"].reason


def test_errors_of_the_program_are_no_refusal():
    assert not refused(None)
    assert not refused(ValueError("too much"))
    found = judge_again(Trial(lambda x: x, (torch.ones(1),), {}), lambda x: x + 1, Rules(), ())
    assert found.differences
