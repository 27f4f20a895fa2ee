"""Training loops with one fault each, and how a loop is watched. Used by the bars and the tests."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from loop_models import MODELS, Discriminator, Generator
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode, _pop_mode, _push_mode

from reefwatch.core.finding import Outcome
from reefwatch.gather import catalog
from reefwatch.gather.ops import _LAYERS
from reefwatch.gather.patches import restore_all
from reefwatch.gather.watch import Watch
from reefwatch.judge.engine import judge, load
from reefwatch.store.writer import Writer

STEPS = 6
"""Steps of a loop; the fourth is left plain by the scheduler."""


def watched(make: Callable[[], Callable[[], Any]], **options: Any) -> dict[str, Outcome]:
    """The outcomes of the loop checks, by code, of `make()()` run under watch in this process."""
    record = recorded(make, **options)
    failed = [name for name in record.facts if name.startswith("errored.")]
    assert not failed, [record.facts[name] for name in failed]
    checks = [check for check in load() if check.contract == "loop"]
    return {outcome.code: outcome for outcome in judge([record], checks)[0]}


def recorded(make: Callable[[], Callable[[], Any]], exam: float = 300.0, **options: Any) -> Any:
    sink = Writer(None, {"rank": 0}, scrub=False)
    without = {"without": ["precision", "perf"]}
    watch = Watch(sink, catalog.instruments(without), exam=exam, options=dict(without), **options)
    watch.start()
    try:
        make()()
    finally:
        watch.stop({"code": 0, "exception": None})
        restore_all()  # autocast is followed for an instrument that is left out here
    return sink.record()


@dataclass(frozen=True)
class Fault:
    """What is wrong, and at which site of the model or loop."""

    kind: str = "none"
    site: str = ""


NONE = Fault()


def line(mark: str) -> int:
    """The line of this file that is marked with `# mark: ...`."""
    lines = Path(__file__).read_text().splitlines()
    return next(n for n, text in enumerate(lines, 1) if re.search(rf"# mark: {mark}\b", text))


class Classify:
    """A classifier's loop, every part of which can be left out or misplaced by a fault."""

    def __init__(self, kind: str, fault: Fault = NONE, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.fault = fault
        self.model = MODELS[kind]()
        self.data = [self.model.batch() for _ in range(3)]
        self.optimizer = self._optimizer()
        if fault.kind == "layer made anew":
            self._renew(fault.site)
        if fault.kind == "detach":
            part = self.model.get_submodule(fault.site)
            part.register_forward_hook(lambda module, args, out: out.detach())
        if fault.kind == "inf gradient":
            self.model.get_parameter(fault.site).register_hook(lambda g: g * float("inf"))

    def _optimizer(self) -> torch.optim.Optimizer:
        kind, site = self.fault.kind, self.fault.site
        named = dict(self.model.named_parameters())
        own = [n for n in named if n.rpartition(".")[0] == site] if site else []
        groups: list[dict[str, Any]] = [{"params": [p for n, p in named.items() if n not in own]}]
        if kind == "learning rate 0":
            groups.append({"params": [named[n] for n in own], "lr": 0.0})
        elif kind != "left out of the optimizer":
            groups[0]["params"] = list(named.values())
        return torch.optim.AdamW(groups, lr=1e-2)

    def _renew(self, path: str) -> None:
        """The same layer with new parameters, as made by a second constructor call."""
        part = self.model.get_submodule(path)
        for name, param in list(part.named_parameters(recurse=False)):
            setattr(part, name, nn.Parameter(param.detach().clone()))

    def __call__(self) -> None:
        kind = self.fault.kind
        scaler = torch.amp.GradScaler("cpu", enabled=kind == "bf16 scaler")
        autocast = kind in ("bf16 scaler", "backward in autocast")
        self.model.train(kind != "eval in training")
        for step in range(STEPS):
            x, y = self.data[0 if kind == "same batch" else step % len(self.data)]
            if kind not in ("no zero_grad", "zero_grad after backward"):
                self.optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                loss = F.cross_entropy(self.model(x).float(), y)
                if kind == "backward in autocast":
                    loss.backward()  # mark: inside
            if kind != "backward in autocast":
                scaler.scale(loss).backward()  # mark: backward
            if kind == "zero_grad after backward":
                self.optimizer.zero_grad()
            scaler.step(self.optimizer)  # mark: step
            scaler.update()
            if step % 3 == 1:
                self.validate()

    def validate(self) -> None:
        kind = self.fault.kind
        self.model.train(kind == "train in evaluation")
        with torch.no_grad():
            right = 0
            for x, y in self.data:
                right += (self.model(x).argmax(-1) == y).sum().item()  # mark: evaluation
        self.model.train(kind != "eval in training")


class Adversarial:
    """A GAN with two optimizers; the discriminator's samples are made under `no_grad`."""

    def __init__(self, fault: Fault = NONE, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.fault = fault
        self.parts = {"generator": Generator(), "discriminator": Discriminator()}
        self.data = [Discriminator.batch()[0] for _ in range(3)]
        self.optimizers = {
            name: torch.optim.Adam(self._chosen(name, part), lr=1e-2)
            for name, part in self.parts.items()
        }
        self._damage()

    def _chosen(self, name: str, part: nn.Module) -> list[nn.Parameter]:
        left_out = self.fault.kind == "left out of the optimizer"
        prefix = self.fault.site + "."
        return [
            p
            for n, p in part.named_parameters()
            if not (left_out and f"{name}.{n}".startswith(prefix))
        ]

    def _damage(self) -> None:
        name, _, path = self.fault.site.partition(".")
        if self.fault.kind == "layer made anew":
            Classify._renew(self, path)  # type: ignore[arg-type]
        if self.fault.kind == "inf gradient":
            self.parts[name].get_parameter(path).register_hook(lambda g: g * float("inf"))

    @property
    def model(self) -> nn.Module:
        return self.parts[self.fault.site.partition(".")[0]]

    def _zero(self, name: str, when: str = "before") -> None:
        mine = self.fault.site == name
        kind = self.fault.kind
        if when == "after" and not (kind == "zero_grad after backward" and mine):
            return
        if when == "before" and kind in ("no zero_grad", "zero_grad after backward") and mine:
            return
        self.optimizers[name].zero_grad()

    def __call__(self) -> None:
        maker, judge = self.parts.values()
        make, decide = self.optimizers.values()
        for part in self.parts.values():
            part.train(self.fault.kind != "eval in training")
        for step in range(STEPS):
            real = self.data[step % len(self.data)]
            with torch.no_grad():
                fake = maker(torch.randn(8, 4))
            self._zero("discriminator")
            loss = F.softplus(-judge(real)).mean() + F.softplus(judge(fake)).mean()
            loss.backward()
            self._zero("discriminator", "after")
            decide.step()  # mark: discriminator
            self._zero("generator")
            loss = F.softplus(-judge(maker(torch.randn(8, 4)))).mean()
            loss.backward()
            self._zero("generator", "after")
            make.step()  # mark: generator


class Poison(TorchDispatchMode):
    """Makes one op yield a NaN, as a faulty kernel would: below everything that looks at it."""

    def __init__(self, site: int, value: float = float("nan")) -> None:
        super().__init__()
        self.site, self.value = site, value
        self.names: list[str] = []
        self.hit = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if _from_the_watch():
            return out
        first = out[0] if isinstance(out, (list, tuple)) and out else out
        view = func._schema.returns and func._schema.returns[0].alias_info is not None
        name = str(func)
        if not isinstance(first, torch.Tensor) or view or "empty" in name:
            return out
        if first.is_floating_point() and first.numel():
            if len(self.names) == self.site:
                first.as_strided((), ()).fill_(self.value)
                self.hit = name
            self.names.append(name)
        return out


def _from_the_watch() -> bool:
    """True for an op with which an instrument looks at a value: it is none of the program's."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and "/torch/_" in frame.f_code.co_filename:  # torch's own wrappers
        frame = frame.f_back
    return frame is not None and "/gather/loop/" in frame.f_code.co_filename


@contextmanager
def below(mode: TorchDispatchMode) -> Iterator[None]:
    """`mode` at the bottom of the stack of dispatch modes."""
    above = [_pop_mode() for _ in range(torch._C._len_torch_dispatch_stack())]
    _push_mode(mode)
    for other in reversed(above):
        _push_mode(other)
    try:
        yield
    finally:
        above = [_pop_mode() for _ in range(torch._C._len_torch_dispatch_stack())]
        for other in reversed([other for other in above if other is not mode]):
            _push_mode(other)


class Poisoned:
    """Three steps of a classifier; in the second, op number `site` yields a NaN or Inf."""

    def __init__(self, kind: str, site: int, value: float = float("nan"), seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.model = MODELS[kind]()
        self.data = [self.model.batch() for _ in range(3)]
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-2)
        self.poison = Poison(site, value)
        self.reached = False

    def __call__(self) -> None:
        for layer in _LAYERS:  # nothing can lie below a dispatch key, but below a mode
            layer.yields(True)
        for step, (x, y) in enumerate(self.data[:2]):
            self.optimizer.zero_grad()
            with below(self.poison) if step == 1 else nullcontext():
                loss = F.cross_entropy(self.model(x), y)
                loss.backward()
            if step == 1:
                grads = [p.grad for p in self.model.parameters() if p.grad is not None]
                self.reached = not all(bool(t.isfinite().all()) for t in (loss, *grads))
            self.optimizer.step()
