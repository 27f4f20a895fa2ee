"""Clipping: are the gradients that reach the optimizer as small as was asked, and no smaller?

What was asked comes from a trainer's configuration, through `options["clip"]`: `{"limit",
"algorithm"}`, by `norm` (of all gradients of an optimizer together) or by `value` (of each
element).
"""

from __future__ import annotations

import math
from typing import Any

from reefwatch.core.fact import Evidence, Unknown
from reefwatch.gather.dtypes import short
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.loop.unseen import aside, dense, together


class Clip(Instrument):
    """Fact `loop.clip`: sizes of the gradients at each looked-at update, before and after."""

    name = "loop.clip"
    contract = "loop"

    def __init__(self) -> None:
        self._tools: Tools | None = None
        self._before: dict[int, float] = {}
        self._rows: list[tuple[float | None, float]] = []
        self._left_out = 0
        self._dtype = ""
        self._looking = False
        self._asked: dict[str, Any] | None = None

    def arm(self, tools: Tools) -> None:
        self._tools = tools

    def open(self, step: int) -> None:
        self._looking = True

    def close(self, step: int) -> bool:
        self._looking = False
        self._before.clear()
        return False

    def before_clip(self, optimizer: Any) -> None:
        """The gradients are complete and not clipped yet. A trainer says so, or nobody."""
        if self._looking and self._wanted():
            size = self._size(optimizer)
            if size is not None:
                self._before[id(optimizer)] = size

    def after_update(self, optimizer: Any, examined: bool) -> None:
        if not examined or not self._wanted():
            return
        if getattr(optimizer, "grad_scale", None) is not None:
            self._left_out += 1  # it unscales in the update itself: what is there now is scaled
            return
        size, before = self._size(optimizer), self._before.pop(id(optimizer), None)
        if size is None or not math.isfinite(size):
            self._left_out += 1
        else:
            self._rows.append((before, size))

    def disarm(self) -> None:
        self.tell()

    def tell(self) -> None:
        if self._tools is None:
            return
        sink = self._tools.sink
        if not self._wanted():
            why = "no trainer was asked to clip gradients"
            sink.fact(self.name, Evidence(self.name, False, source=why))
        elif not self._rows:
            sink.fact(self.name, Unknown("no update was seen whose gradients could be read"))
        else:
            sink.fact(self.name, Evidence(self.name, self._facts(), source="gradients at updates"))

    def _facts(self) -> dict[str, Any]:
        limit = float(self._asked["limit"]) if self._asked else math.inf
        expected = [(min(b, limit), a) for b, a in self._rows if b is not None]
        return {
            **(self._asked or {}),
            "updates": len(self._rows),
            "left_out": self._left_out,
            "dtype": self._dtype,
            "largest": max(after for _, after in self._rows),
            "compared": len(expected),
            "least_ratio": min((a / b for b, a in expected if b), default=1.0),
        }

    def _wanted(self) -> bool:
        if self._asked is None and self._tools is not None:
            asked = self._tools.options.get("clip")
            if isinstance(asked, dict) and asked.get("limit"):
                self._asked = dict(asked)
        return self._asked is not None

    def _size(self, optimizer: Any) -> float | None:
        """The 2-norm of all gradients, or the largest element; None where it cannot be read."""
        assert self._tools is not None and self._asked is not None
        torch = self._tools.torch
        norm = self._asked.get("algorithm") != "value"
        with aside(torch):
            parts = []
            for group in optimizer.param_groups:
                for param in group["params"]:
                    if param.grad is None:
                        continue
                    values = dense(torch, param.grad)
                    if values is None or type(param.grad) is not torch.Tensor:
                        return None  # a shard: its norm is not that of the whole
                    self._dtype = _coarser(self._dtype, short(values.dtype))
                    values = values.double() if values.device.type == "cpu" else values.float()
                    parts.append(values.norm() if norm else values.abs().max())
            if not parts:
                return None
            sizes = together(torch, parts)
        return math.sqrt(sum(size * size for size in sizes)) if norm else max(sizes)


_COARSE = ("f64", "f32", "f16", "bf16")


def _coarser(one: str, other: str) -> str:
    """The dtype with fewer bits of the two."""
    order = {name: n for n, name in enumerate(_COARSE)}
    return max(one, other, key=lambda name: order.get(name, -1))
