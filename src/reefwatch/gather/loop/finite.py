"""Is the loss finite in every step, and where did the first NaN or Inf come from?

The value of each loss is kept in every step, without waiting for a device. Ops are looked at in
examined steps; flow.py tells how their origin is found and why a mask of -inf is no finding. An
Inf in a gradient counts when an optimizer is about to apply it: a GradScaler that finds one and
skips the update is doing its work.
"""

from __future__ import annotations

import math
from typing import Any

from reefwatch.core.errors import Breach
from reefwatch.core.fact import Evidence, Unknown
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.loop.deferred import Deferred
from reefwatch.gather.loop.flow import FINITE, NAN, Flow, classify
from reefwatch.gather.loop.modules import Modules
from reefwatch.gather.loop.place import user_place
from reefwatch.gather.loop.unseen import aside, plain, together, unseen

CHUNK = 64
"""Losses per event."""
FULL_RATE = 4096
"""Losses of one series that are all kept; of the next as many every second, then every third."""
TOLD = 3
"""Findings of one sort that are kept: what follows the first is its consequence."""


class _Series:
    """The losses of one line of the program."""

    def __init__(self, number: int, place: tuple[str, int]) -> None:
        self.number, self.place = number, place
        self.count = self.first = 0
        self.values: list[float | None] = []


_FILLED_LATER = ("c10d.", "fsdp.", "_c10d_functional.")
"""Ops whose outputs are memory that another rank's data has not reached yet: no NaN is known
there, unless what reads it has one too."""


class Finite(Instrument):
    """Facts `loop.losses`, `loop.finite`; events `loop.loss`, `loop.nonfinite`."""

    name = "loop.finite"
    contract = "loop"
    wants_ops = True

    def __init__(self) -> None:
        self._flow: Flow | None = None
        self._starts: list[tuple[int, dict[str, Any]]] = []
        self._series: dict[tuple[str, int], _Series] = {}
        self._rows: dict[int, dict[str, Any]] = {}
        self._backwards = self._seen = self._bad = self._ops = self._steps = self._steps_of = 0
        self._stray = self._lost = 0
        self._flushed = 0.0

    def arm(self, tools: Tools) -> None:
        self._tools = tools
        self._torch = tools.torch
        self._deferred = Deferred(tools.torch)

    def open(self, step: int) -> None:
        self._flow = Flow(self._torch)

    def close(self, step: int) -> bool:
        flow, self._flow = self._flow, None
        if flow is None:
            return False
        self._steps += 1
        self._ops += flow.ops
        self._lost += flow.lost
        with aside(self._torch):
            flow.settle()
        told = self._trace(flow)
        self._stray_ones(flow, told)
        self._take(self._deferred.take())
        return bool(told)

    def hears(self, func: Any, name: str, phase: str) -> bool:
        return phase != "optimizer" and classify(func, name) != "view"

    def on_op(self, call: Any) -> None:
        if self._flow is not None:
            self._flow.add(call)

    def before_backward(self, loss: Any) -> None:
        number, self._backwards = self._backwards, self._backwards + 1
        if self.passing:
            return
        torch = self._torch
        with unseen(torch):
            if not plain(torch, loss) or loss.numel() != 1 or not loss.is_floating_point():
                return
            place = user_place(3)
            series = self._series.get(place)
            if series is None:
                series = self._series[place] = _Series(len(self._series), place)
            tag = (number, series, loss.dtype)
            if torch._C._len_torch_dispatch_stack() or torch.is_grad_enabled():
                with aside(torch):
                    self._seen += self._deferred.push(loss, tag)
            else:  # nobody looks: no context is needed
                self._seen += self._deferred.push(loss, tag)
        start = self._flow.writer(loss) if self._flow is not None else None
        if start is not None:
            self._starts.append((start, self._row(*tag)))
        self._take(self._deferred.take())
        if self._tools.referee is not None and number in self._rows:
            self._breach(number)

    def _row(self, number: int, series: _Series, dtype: Any) -> dict[str, Any]:
        """The event of a loss that is not finite, as far as known; one object per loss."""
        for _, row in self._starts:
            if row["number"] == number:
                return row
        return self._rows.get(number) or self._loss(number, series, dtype)

    def _loss(self, number: int, series: _Series, dtype: Any) -> dict[str, Any]:
        name = str(dtype).removeprefix("torch.")
        return {"where": "loss", "number": number, "at": list(series.place), "dtype": name}

    def before_update(self, optimizer: Any, examined: bool) -> None:
        flow = self._flow
        if flow is None or getattr(optimizer, "found_inf", None) is not None:
            return
        with aside(self._torch):
            params = [p for g in optimizer.param_groups for p in g["params"] if p.is_leaf]
            pairs = [
                (p, p.grad) for p in params if p.grad is not None and plain(self._torch, p.grad)
            ]
            strided = self._torch.strided
            pairs = [(p, g) for p, g in pairs if g.layout is strided and g.numel()]
            pairs = [(p, g) for p, g in pairs if not g.is_complex()]
            values = together(self._torch, [g.sum() for _, g in pairs])
            for (param, grad), value in zip(pairs, values, strict=True):
                if not math.isfinite(value):
                    value = sum(together(self._torch, list(self._torch.aminmax(grad))))
                if not math.isfinite(value):  # not only more than its dtype holds as a sum
                    self._bad_gradient(flow, optimizer, param, grad, value)
                    return

    def _bad_gradient(
        self, flow: Flow, optimizer: Any, param: Any, grad: Any, value: float
    ) -> None:
        number = self._backwards - 1
        if number in self._rows:  # the loss has said so already
            return
        modules = Modules(self._torch)
        modules.learn([param])
        row = {
            "where": "grad",
            "number": number,
            "at": list(user_place(3)),
            "kind": "nan" if value != value else "inf",
            "param": modules.name(param) or f"a parameter of {type(optimizer).__name__}",
        }
        self._tell(row)
        start = flow.writer(grad)
        if start is not None:
            self._starts.append((start, row))

    def on_step(self, step: int, seconds: float, examined: bool) -> None:
        self._steps_of += 1
        now = self._tools.clock()
        if now - self._flushed > 1.0:
            self._flushed = now
            self._deferred.flush()
            self._take(self._deferred.take())

    def _take(self, values: list[tuple[tuple[int, _Series, Any], float]]) -> None:
        """Losses whose values have arrived."""
        for tag, value in values:
            self._keep(tag[1], value)
            if not math.isfinite(value):
                self._bad += 1
                row = self._row(*tag)
                row.update(self._loss(*tag))  # a gradient of that backward may have come first
                row["kind"] = "nan" if value != value else "inf"
                self._tell(row)

    def _keep(self, series: _Series, value: float) -> None:
        stride = 1 + series.count // FULL_RATE
        if series.count % stride == 0:
            if not series.values:
                series.first = series.count
            series.values.append(value if math.isfinite(value) else None)
        series.count += 1
        if len(series.values) >= CHUNK:
            self._send(series)

    def _send(self, series: _Series) -> None:
        data = {
            "first": series.first,
            "stride": 1 + series.first // FULL_RATE,
            "values": series.values,
            "series": series.number,
            "file": series.place[0],
            "line": series.place[1],
        }
        if series.values:
            self._tools.sink.event("loop.loss", data, id=f"{series.number}:{series.first}")
        series.values = []

    def _tell(self, row: dict[str, Any]) -> None:
        """Write a finding of a loss or gradient; again when its origin becomes known."""
        number = row["number"]
        if number not in self._rows and len(self._rows) >= TOLD:
            return
        self._rows[number] = row
        row.setdefault("source", "not seen")
        self._tools.sink.event("loop.nonfinite", dict(row), id=str(number))

    def _trace(self, flow: Flow) -> list[Any]:
        """Find the origins for what began in this step."""
        told = []
        starts, self._starts = self._starts, []
        for start, row in starts:
            if flow.made[start].also == FINITE:
                continue
            origin = flow.origin(start)
            told.append(origin)
            row.setdefault("kind", "nan" if flow.made[start].also == NAN else "inf")
            row.update(_describe(origin))
            self._tell(row)
        return told

    def _stray_ones(self, flow: Flow, told: list[Any]) -> None:
        """NaN that some op made and that reached neither a loss nor an update."""
        if told:
            return
        for made in flow.born():
            if made.op.startswith(_FILLED_LATER):
                continue
            if self._stray < TOLD:
                row = {"where": "op", "kind": "nan", **_describe(made)}
                self._tools.sink.event("loop.nonfinite", row, id=f"op{self._stray}")
            self._stray += 1

    def _breach(self, number: int) -> None:
        if self._flow is not None:
            with aside(self._torch):
                self._flow.settle()
            self._trace(self._flow)
        referee = self._tools.referee
        row = {"event": "loop.nonfinite", **self._rows[number]}
        message = referee.breach("loop", row) if referee is not None else None
        if message:
            raise Breach(message)

    def release(self) -> None:
        self._flow = None
        self._starts = []

    def disarm(self) -> None:
        if self._flow is not None:
            self.close(-1)
        self._take(self._deferred.finish())
        self.tell()

    def tell(self) -> None:
        for series in self._series.values():
            self._send(series)
        sink = self._tools.sink
        if self._seen:
            value = {"seen": self._seen, "backwards": self._backwards, "nonfinite": self._bad}
            sink.fact("loop.losses", Evidence("loop.losses", value, source="losses at backward"))
        elif self._backwards:
            why = f"none of {self._backwards} backward passes began at a scalar that could be read"
            sink.fact("loop.losses", Unknown(why))
        else:
            sink.fact("loop.losses", Unknown("no call of Tensor.backward was seen"))
        if self._ops:
            steps = {"steps": self._steps, "steps_of": max(self._steps_of, self._steps)}
            value = {"ops": self._ops, **steps, "stray": self._stray, "lost": self._lost}
            sink.fact("loop.finite", Evidence("loop.finite", value, source="outputs of ops"))
        else:
            sink.fact("loop.finite", Unknown("no op was seen: no step was examined"))


def _describe(made: Any) -> dict[str, Any]:
    return {
        "source": "op" if made.op else made.label,
        "op": made.op,
        "module": made.module,
        "file": made.file,
        "line": made.line,
        "phase": made.phase,
        "made": "nan" if made.kind == NAN else "inf",
    }
