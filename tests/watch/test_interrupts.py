"""Another torch, Ctrl-C or an alarm in the middle of our work: the run stays as it was."""

from __future__ import annotations

import contextlib
import signal
from types import SimpleNamespace

import pytest
import torch

from reefwatch.gather import guard, tracebacks
from reefwatch.gather.guard import Guard, Panel, Shield, of_the_program
from reefwatch.gather.instrument import Instrument
from reefwatch.gather.watch import Watch


class Sink:
    def __init__(self) -> None:
        self.facts: dict[str, object] = {}

    def fact(self, name, fact) -> None:
        self.facts[name] = fact

    def event(self, *args, **kwargs) -> None: ...


def core_without(name: str) -> SimpleNamespace:
    """torch's C module, in which one name is missing."""
    names = ("_len_torch_dispatch_stack", "_len_torch_function_stack", "_set_grad_enabled")
    made = SimpleNamespace(**{n: getattr(torch._C, n) for n in names}, _autograd=torch._C._autograd)
    delattr(made, name)
    return SimpleNamespace(_C=made, is_grad_enabled=torch.is_grad_enabled)


@pytest.mark.parametrize("name", ["_autograd", "_len_torch_function_stack"])
def test_a_shield_that_cannot_be_entered_changes_nothing(name: str) -> None:
    with pytest.raises(AttributeError, match=name), Shield(core_without(name)):
        pass
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("at", range(1, 5))
def test_an_interrupt_within_a_shield_changes_nothing(at: int) -> None:
    """Ctrl-C comes at the `at`th call of what sets the grad mode, before it or after it."""
    calls = 0
    set_grad = torch._C._set_grad_enabled

    def interrupted(on: bool) -> None:
        nonlocal calls
        calls += 1
        if calls == at:
            raise KeyboardInterrupt
        set_grad(on)
        if calls == at - 2:
            raise KeyboardInterrupt

    fake = core_without("_set_grad_enabled")
    fake._C._set_grad_enabled = interrupted
    with contextlib.suppress(KeyboardInterrupt), Shield(fake):
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()


class Slow(Instrument):
    """An instrument that is at work when the alarm comes."""

    name = "slow"

    def before_backward(self, loss) -> None:
        signal.raise_signal(signal.SIGUSR1)

    def disarm(self) -> None:
        signal.raise_signal(signal.SIGUSR1)


@pytest.fixture
def alarm():
    class Late(Exception):
        pass

    def late(*args) -> None:
        raise Late("the step takes too long")

    before = signal.signal(signal.SIGUSR1, late)
    yield Late
    signal.signal(signal.SIGUSR1, before)


def test_an_alarm_of_the_program_passes_through_an_instrument(alarm) -> None:
    sink = Sink()
    one = Guard(Slow(), sink)
    with pytest.raises(alarm):
        one.call("before_backward", None)
    assert one.on and not sink.facts
    panel = Panel([Slow()], sink)
    panel.arm(torch, lambda contract: None)
    with pytest.raises(alarm):
        panel.call("before_backward", None)
    assert panel.guards[0].on and not sink.facts
    assert torch.is_grad_enabled()


def test_an_alarm_passes_through_the_watch(alarm) -> None:
    sink = Sink()
    watch = Watch(sink, [Slow()])
    watch.start()
    weight = torch.nn.Parameter(torch.ones(2))
    try:
        with pytest.raises(alarm):
            weight.sum().backward()
        assert "errored.watch" not in sink.facts
    finally:
        with contextlib.suppress(alarm):
            watch.stop()
    weight.sum().backward()  # nothing of ours is left


def test_an_error_of_ours_is_no_alarm(alarm) -> None:
    try:
        raise ValueError("ours")
    except ValueError as error:
        assert not of_the_program(error)


def test_the_first_failure_is_the_one_that_is_told() -> None:
    sink = Sink()
    watch = Watch(sink, [])
    watch.start()
    watch._torch = None
    watch._fail("somewhere", ValueError("first"))
    watch._guarded("later", lambda: 1 / 0)
    assert sink.facts["errored.watch"].value["error"] == "ValueError: first"
    watch.stop()


def test_contexts_of_ours_leave_the_traceback_with_us(monkeypatch) -> None:
    """A KeyboardInterrupt inside `contextlib`, entered by a frame of ours."""

    @contextlib.contextmanager
    def interrupted():
        raise KeyboardInterrupt
        yield

    def ours() -> None:
        with interrupted():
            pass

    code = ours.__code__.replace(co_filename=guard.__file__)
    ours.__code__ = code
    inner = interrupted.__wrapped__
    inner.__code__ = inner.__code__.replace(co_filename=guard.__file__)

    def theirs() -> None:
        ours()

    with pytest.raises(KeyboardInterrupt) as caught:
        theirs()
    link = tracebacks.strip(caught.value).__traceback__
    names = []
    while link is not None:
        names.append(link.tb_frame.f_code.co_name)
        link = link.tb_next
    assert names[-1] == "theirs" and "__enter__" not in names
