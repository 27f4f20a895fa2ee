"""The reference of a run: recorded on the trusted machine, followed on another.

At a ladder of steps (0, 1, 2, 4, 8 ...) every op's floats are sketched, with each parameter's
gradient and value. What the first step was given (weights, batch, labels, masks) is kept whole, of
later ones the batch. `Recorder` only reads; what follows a reference is in follow.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from reefwatch.core.fact import Evidence, Unknown
from reefwatch.core.ports import ReferenceReader, ReferenceWriter
from reefwatch.gather import environment
from reefwatch.gather.dtypes import short
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.loop.modules import Modules
from reefwatch.gather.numerics.externals import Externals, Storages
from reefwatch.gather.numerics.plans import Plans
from reefwatch.gather.numerics.sketch import Sketcher, digest, raw, restore

LADDER = (0, 1, 2, 4, 8, 16, 32, 64)
"""Steps that are recorded."""
MOST_LOSSES = 100_000


class Rows(Instrument):
    """What recording and following have in common: one row per op, gradient and parameter."""

    contract = "numerics"
    wants_ops = True
    wants_before = True
    on_ladder = True

    def arm(self, tools: Tools) -> None:
        self._tools, self._torch = tools, tools.torch
        self._sketch = Sketcher(tools.torch)
        self._plans = Plans(tools.torch)
        self._externals = Externals(tools.torch)
        self._first = Storages(tools.torch)
        """What step 0 was given: what is given later beside it is a batch."""
        self._grads = Storages(tools.torch)
        """Gradients that are kept from step to step (`zero_grad(set_to_none=False)`)."""
        self._carried: set[str] = set()
        self._modules = Modules(tools.torch)
        self._counts: Counter[Any] = Counter()
        self._step = -1
        self._order = 0
        self._rows_waiting: list[tuple[dict[str, Any], Any]] = []
        self._batch = 0
        self._draws: Counter[str] = Counter()
        self._updating = False
        self._steps: list[int] = []
        self._losses: list[Any] = []
        self._names: dict[int, str] = {}

    def open(self, step: int) -> None:
        self._step = step if step in LADDER else -1
        if self._step < 0:
            return
        self._counts.clear()
        self._externals.begin()
        self._order = self._batch = 0
        self._draws.clear()
        self._steps.append(step)

    def close(self, step: int) -> bool:
        self.fetch()
        self._step = -1
        return step < LADDER[-1] and len(self._steps) < 5

    def before_op(self, func: Any, args: Any, kwargs: Any) -> None:
        if self._step < 0 or self._updating:
            return
        for tensor in self._externals.new(args, kwargs):
            storage = tensor.untyped_storage()
            address = int(storage.data_ptr())
            if self._step == 0:
                self._first.add(address, storage)
            elif address in self._first or address in self._grads:
                continue
            name = self._name(tensor)
            if name:
                self.given(f"{self._step}/weight/{name}", tensor)
            else:
                self.given(f"{self._step}/given/{self._batch}", tensor)
                self._batch += 1

    def on_op(self, call: Any) -> None:
        if self._step < 0:
            return
        plan = self._plans.of(call.func)
        outs = self._plans.outputs(plan, call)
        if self._torch.Tag.nondeterministic_seeded in getattr(call.func, "tags", ()):
            for out in _random(call, outs):
                if out is not None:
                    self.drawn(self._draw(call.name), out)
        self._externals.made(call.out)
        if plan.silent:
            return
        for place, out in enumerate(outs):
            if out is None or not out.is_floating_point() or not out.numel() or out.is_sparse:
                continue
            site = call.site
            if site.phase == "optimizer":  # parameters have rows of their own
                self.seen("optimizer", self._owner(call), call.name, 0, None, site.file, site.line)
                break
            module = site.module or self._owner(call)
            self.seen(site.phase, module, call.name, place, out, site.file, site.line)

    def before_update(self, optimizer: Any, examined: bool) -> None:
        self._updating = True
        if self._step >= 0:
            rates = _rates(optimizer)
            for name, param in self._named(optimizer):
                if self._step:  # step 0 has it among what it was given
                    rate = rates.get(id(param), 0.0)
                    self.seen("weight", name, "weight", 0, param, "", 0, rate=rate)
                grad = param.grad
                if grad is None or grad.is_sparse:
                    self.seen(
                        "gradient", name, "none" if grad is None else "sparse", 0, None, "", 0
                    )
                else:
                    storage = grad.untyped_storage()
                    self._grads.add(int(storage.data_ptr()), storage)
                    self.seen("gradient", name, "gradient", 0, grad, "", 0)

    def after_update(self, optimizer: Any, examined: bool) -> None:
        self._updating = False
        if self._step >= 0:
            rates = _rates(optimizer)
            for name, param in self._named(optimizer):
                rate = rates.get(id(param), 0.0)
                self.seen("parameter", name, "parameter", 0, param, "", 0, rate=rate)

    def before_backward(self, loss: Any) -> None:
        if len(self._losses) < MOST_LOSSES and loss.numel() == 1:
            self._losses.append(loss.detach().clone())

    def seen(
        self,
        phase: str,
        module: str,
        op: str,
        place: int,
        tensor: Any,
        file: str,
        line: int,
        **more: Any,
    ) -> None:
        """One row, in the order in which the step makes them."""
        key = (phase, module, op, place)
        nth = self._counts[key]
        self._counts[key] += 1
        row = {"step": self._step, "phase": phase, "module": module, "op": op, "out": place}
        row.update(nth=nth, order=self._order, file=file, line=line, **more)
        self._order += 1
        sketch = None if tensor is None else self._sketch.later(tensor, self._whole(phase))
        self._rows_waiting.append((row, sketch))

    def _whole(self, phase: str) -> bool:
        """Whether norms are of all elements: those of gradients, and all of step 0."""
        return self._step == 0 or phase == "gradient"

    def fetch(self) -> None:
        """Hand on the rows of the step, when the device has told what they need."""
        self._sketch.fetch()
        waiting, self._rows_waiting = self._rows_waiting, []
        for row, sketch in waiting:
            self.row(row, sketch)

    def _draw(self, op: str) -> str:
        """The name of a draw: by its op, since devices draw one mask by one op or by three."""
        self._draws[op] += 1
        return f"{self._step}/random/{op}/{self._draws[op] - 1}"

    def given(self, name: str, tensor: Any) -> None:
        raise NotImplementedError

    def drawn(self, name: str, tensor: Any) -> None:
        raise NotImplementedError

    def row(self, row: dict[str, Any], sketch: dict[str, Any] | None) -> None:
        raise NotImplementedError

    def carried(self, name: str, tensor: Any) -> bool:
        """True for what an earlier step has made, by its place where that step was not examined."""
        place = name.partition("/")[2]
        if self._externals.carried(tensor):
            self._carried.add(place)
        return place in self._carried

    def losses(self) -> list[float]:
        return [float(loss) for loss in self._losses]

    def about(self) -> dict[str, Any]:
        """Where this ran: runs of equal ones are expected to be equal bit for bit."""
        torch = self._torch
        return {
            "device": environment.device_facts(torch),
            "torch": environment.torch_facts(torch, threads=True),
        }

    def _name(self, tensor: Any) -> str:
        """A parameter's name in its module: backends read weights in different orders."""
        if not isinstance(tensor, self._torch.nn.Parameter):
            return ""
        if id(tensor) not in self._names:
            self._modules.learn([tensor])
            self._names[id(tensor)] = self._modules.name(tensor) or ""
        return self._names[id(tensor)]

    def _owner(self, call: Any) -> str:
        """The parameter that an op of the optimizer works for, if it is among its arguments."""
        if call.phase != "optimizer":
            return ""
        return next((name for a in call.args if (name := self._names.get(id(a)))), "")

    def _named(self, optimizer: Any) -> Iterator[tuple[str, Any]]:
        params = [p for group in optimizer.param_groups for p in group["params"]]
        if any(id(p) not in self._names for p in params):
            self._modules.learn(params)
            for number, param in enumerate(params):
                self._names[id(param)] = self._modules.name(param) or f"parameter {number}"
        for param in params:
            yield self._names[id(param)], param


class Recorder(Rows):
    """`run --record REF`. With a noise seed, active: the first step's floats move one ulp."""

    name = "numerics.record"

    def arm(self, tools: Tools) -> None:
        super().arm(tools)
        self._writer: ReferenceWriter = tools.options["reference_writer"]
        self._light = bool(tools.options.get("light"))
        self._noise = int(tools.options.get("noise") or 0)
        self._base: ReferenceReader | None = tools.options.get("reference")

    def given(self, name: str, tensor: Any) -> None:
        torch = self._torch
        if self._noise and self._step == 0 and tensor.is_floating_point() and tensor.numel():
            self._move(tensor)
        kind: dict[str, Any] = {
            "given": name,
            "digest": digest(torch, tensor),
            "dtype": short(tensor.dtype),
        }
        kind["weight"] = isinstance(tensor, torch.nn.Parameter)
        kind["carried"] = self.carried(name, tensor)
        kind.update(constant=constant(tensor), bytes=tensor.numel() * tensor.element_size())
        self._writer.row({**kind, "shape": list(tensor.shape)})
        if not (self._light and self._step) and not self._noise and not tensor.is_complex():
            self._writer.tensor(name, raw(torch, tensor), short(tensor.dtype), tuple(tensor.shape))

    def drawn(self, name: str, tensor: Any) -> None:
        found = self._base.tensor(name) if self._base is not None else None
        if found is not None:
            put(self._torch, tensor, found)
        if not self._noise:
            kept = raw(self._torch, tensor)
            self._writer.tensor(name, kept, short(tensor.dtype), tuple(tensor.shape))

    def row(self, row: dict[str, Any], sketch: dict[str, Any] | None) -> None:
        self._writer.row({**row, "sketch": sketch})

    def disarm(self) -> None:
        self.fetch()
        if not self._writer.rows:
            self._writer.discard()
            why = Unknown("no step of the ladder was examined: no reference was written")
            self._tools.sink.fact("numerics.recorded", why)
            return
        read = self._sketch.shares()
        self._writer.about(steps=self._steps, losses=self.losses(), read=read, **self.about())
        self._writer.close()
        value: Any = {"steps": self._steps, "rows": self._writer.rows, "read": read}
        self._tools.sink.fact("numerics.recorded", Evidence("numerics.recorded", value))

    def _move(self, tensor: Any) -> None:
        """One unit in the last place, up or down by a fixed pattern."""
        torch = self._torch
        generator = torch.Generator().manual_seed(self._noise)
        up = torch.randint(0, 2, tensor.shape, generator=generator).bool().to(tensor.device)
        ends = (torch.full_like(tensor, end) for end in (torch.inf, -torch.inf))
        more, less = (torch.nextafter(tensor.detach(), end.detach()) for end in ends)
        tensor.data.copy_(torch.where(up, more, less))


_SCALED = frozenset(("exp_avg_sq", "square_avg", "exp_inf", "sum", "prev", "acc_delta"))
"""State of optimizers that scale by the gradient's own size."""
_SIGNED = ("Lion", "SignSGD", "Signum", "Muon", "Rprop")


def _rates(optimizer: Any) -> dict[int, float]:
    """The rate of each parameter, by id, where a step is as large as it whatever the gradient."""
    signed = type(optimizer).__name__.startswith(_SIGNED)
    return {
        id(param): float(group.get("lr", 0.0))
        for group in optimizer.param_groups
        for param in group["params"]
        if signed or _SCALED & set(optimizer.state.get(param, ()))
    }


def _random(call: Any, outs: list[Any]) -> list[Any]:
    """What of an op's outputs is random. Attention draws only where it drops weights out."""
    if "attention" not in call.name:
        return outs
    schema = call.func._schema.arguments
    place = next((n for n, a in enumerate(schema) if a.name == "dropout_p"), None)
    given = call.kwargs.get("dropout_p", 0.0)
    chance = call.args[place] if place is not None and place < len(call.args) else given
    return outs[:1] if chance else []


def constant(tensor: Any) -> bool:
    """True for zeros, ones and the like: they are the same from every seed."""
    flat = tensor.detach().reshape(-1)
    return bool(tensor.numel() < 2 or (flat == flat[0]).all())


def put(torch: Any, tensor: Any, found: tuple[bytes, str, tuple[int, ...]]) -> bool:
    """Put bytes into a tensor without a trace in its graph; False when they do not fit."""
    made = restore(torch, found, tensor)
    if made is None:
        return False
    tensor.data.copy_(made)
    return True
