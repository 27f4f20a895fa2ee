"""From a NaN or Inf back to the op that made it, over the ops of one examined step.

Each op keeps one scalar of its output (whether it is finite) and which ops wrote its inputs, by
storage. An Inf alone says nothing: attention masks are full of it, on purpose, and so is a
`log(0)` behind a `where`. So nothing is reported because an op made it; the walk begins at a loss
or gradient that *is* not finite and follows only inputs that are not finite either. A mask whose
softmax is finite is never on that way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from reefwatch.gather.loop.unseen import plain, together

FINITE, INF, NAN = 0, 1, 2

_UNWRITTEN = ("aten.empty", "aten.new_empty", "aten.resize_", "aten.set_")
"""Their outputs hold whatever lay in memory."""
_ON_PURPOSE = ("masked_fill", "full", "fill_", "index_fill", "scalar_tensor", "lift_fresh")
"""Ops that put in an Inf that somebody wrote down; no arithmetic of theirs made it."""
KEPT = 20_000
"""Ops kept per step, about 10 MB. What comes after is not followed."""


@dataclass
class Made:
    """One op that wrote a tensor, or a tensor that came from outside the step (`op` is empty)."""

    op: str
    module: str = ""
    file: str = ""
    line: int = 0
    phase: str = ""
    scalar: Any = None
    inputs: tuple[int, ...] = ()
    below: int | None = None
    """The op whose values it wrote over in part only."""
    kind: int = FINITE
    label: str = ""
    also: int = FINITE
    """Its kind, or that of what it wrote over in part."""


class Flow:
    """The ops of one examined step."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.made: list[Made] = []
        self._writer: dict[int, int] = {}
        self._resolved = 0
        self._sort: dict[int, str] = {}
        self._funcs: list[Any] = []
        self.ops = self.lost = 0

    def add(self, call: Any) -> None:
        """Note one op. For a device nothing is read yet."""
        func = call.func
        sort = self._sort.get(id(func)) or self._learn(func, call.name)
        if sort == "view":
            return
        if len(self.made) >= KEPT:
            self.lost += 1
            return
        self.ops += 1
        written = call.args[0] if sort == "writes" and call.args else call.out
        outs = [t for t in _tensors((written,)) if plain(self._torch, t)]
        if not outs:
            return
        outs = [t for t in outs if t.layout is self._torch.strided and t.device.type != "meta"]
        written_to = {t.untyped_storage()._cdata for t in outs}
        inputs = () if sort == "unwritten" else tuple(self._inputs(call, written_to))
        for out in outs:
            self._write(call, out, sort, inputs)

    def _learn(self, func: Any, name: str) -> str:
        self._funcs.append(func)  # so that its id stays its own
        sort = self._sort[id(func)] = classify(func, name)
        return sort

    def _inputs(self, call: Any, written_to: set[int]) -> Iterator[int]:
        args = call.args
        if "batch_norm" in call.name and call.phase != "backward" and _updates_statistics(args):
            args = args[:3]  # its running statistics hold what the op itself has written by now
        for tensor in _tensors((*args, *call.kwargs.values())):
            if not plain(self._torch, tensor) or tensor.layout is not self._torch.strided:
                continue
            if not (tensor.is_floating_point() or tensor.is_complex()):
                continue
            key = tensor.untyped_storage()._cdata
            if key not in self._writer:
                if key in written_to:  # written over already: what it held before is not known
                    continue
                label = "parameter" if type(tensor) is self._torch.nn.Parameter else "input"
                self._note(key, Made("", scalar=self._scalar(tensor), label=label))
            yield self._writer[key]

    def _note(self, key: int, made: Made) -> None:
        self._writer[key] = len(self.made)
        self.made.append(made)

    def _write(self, call: Any, out: Any, sort: str, inputs: tuple[int, ...]) -> None:
        storage = out.untyped_storage()
        key = storage._cdata
        if sort == "unwritten" or not (out.is_floating_point() or out.is_complex()):
            self._writer.pop(key, None)
            if sort == "unwritten":
                self._note(key, Made(call.name))
            return
        partly = out.numel() * out.element_size() < storage.nbytes()
        below = self._writer.get(key) if partly else None
        site = call.site
        made = Made(
            call.name,
            site.module,
            site.file,
            site.line,
            site.phase,
            self._scalar(out),
            inputs,
            below,
        )
        self._note(key, made)

    def _scalar(self, tensor: Any) -> Any:
        """0, 1 or 2 on the host; on a device a scalar that is NaN, Inf or finite alike."""
        if tensor.numel() == 0:
            return FINITE
        data = tensor.detach() if tensor.requires_grad else tensor
        data = self._torch.view_as_real(data.resolve_conj()) if data.is_complex() else data
        if data.element_size() == 1:  # float8 has no reductions
            return FINITE
        if data.device.type != "cpu":
            return self._torch.linalg.vector_norm(data, float("inf"))
        # A sum is the fastest reduction and is finite only if every value is.
        total = float(data.sum())
        if total - total == 0:
            return FINITE
        return max(_kind(float(v)) for v in self._torch.aminmax(data))

    def settle(self) -> None:
        """Read what is still on a device; after this `kind` and `also` are known."""
        new = self.made[self._resolved :]
        waiting = [m for m in new if not isinstance(m.scalar, (int, type(None)))]
        for made, value in zip(
            waiting, together(self._torch, [m.scalar for m in waiting]), strict=True
        ):
            made.scalar = _kind(value)
        for made in new:
            made.kind = made.scalar or FINITE
            made.also = made.kind
            if made.below is not None:
                made.also = max(made.kind, self.made[made.below].also)
        self._resolved = len(self.made)

    def writer(self, tensor: Any) -> int | None:
        """Which op wrote this tensor, when it was written in this step."""
        if not plain(self._torch, tensor) or tensor.layout is not self._torch.strided:
            return None
        return self._writer.get(tensor.untyped_storage()._cdata)

    def origin(self, start: int) -> Made:
        """The op, or the tensor from outside, from which a value that is not finite comes.

        Follows NaN first. Where a NaN is born of an Inf (Inf - Inf, 0 * Inf) it goes on to what
        made the Inf if that was arithmetic; its writer is not to blame for one put in on purpose.
        """
        if self.made[start].also == FINITE:
            return self.made[start]
        made = self._first(start, NAN) if self.made[start].also == NAN else None
        if made is None:
            return self.made[self._first(start, INF)]
        infinite = [n for n in self.made[made].inputs if self.made[n].also == INF]
        for n in infinite:
            source = self.made[self._first(n, INF)]
            if source.op and not any(word in source.op for word in _ON_PURPOSE):
                return source
        return self.made[made]

    def _first(self, at: int, kind: int) -> int:
        seen = {at}
        while True:
            made = self.made[at]
            before = made.inputs if made.kind >= kind else (made.below,)
            found = [
                n
                for n in before
                if n is not None and n not in seen and n < at and self.made[n].also >= kind
            ]
            if not found:
                return at
            at = min(found)
            seen.add(at)

    def born(self) -> Iterator[Made]:
        """Ops that made a NaN from inputs without one."""
        for made in self.made:
            fresh = made.kind == NAN and all(self.made[n].also != NAN for n in made.inputs)
            if made.op and fresh:
                yield made


def classify(func: Any, name: str) -> str:
    """What an op does: `view`, `unwritten`, `writes` (into its first argument), `op`."""
    schema = getattr(func, "_schema", None)
    if schema is None:  # a higher-order operator, one op with all that it runs
        return "op"
    if name.startswith(_UNWRITTEN):
        return "unwritten"
    returns = schema.returns
    if returns and all(r.alias_info and not r.alias_info.is_write for r in returns):
        return "view"
    if not returns:
        return "writes"
    return "op"


def _updates_statistics(args: tuple[Any, ...]) -> bool:
    """Batch norm ops take (x, weight, bias, mean, var, training, ...); one without the flag trains.

    Their schemas do not say that mean and var are written.
    """
    return len(args) <= 5 or args[5] is not False


def _kind(value: float) -> int:
    if value != value:
        return NAN
    return FINITE if value - value == 0 else INF


def _tensors(values: tuple[Any, ...]) -> Iterator[Any]:
    for value in values:
        if hasattr(value, "untyped_storage"):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(tuple(value))
