"""Every form of collective, each a function that runs it and says what must have come out.

Written once and run with packed and with strided buffers, waiting or not, in any group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from reefwatch.experiments.dist import codes
from reefwatch.experiments.dist.arena import Arena
from reefwatch.experiments.dist.compare import Expected, mover, sums


@dataclass
class Context:
    """What one case is run with."""

    group: Any
    """None is the world."""
    device: Any
    dtype: Any
    n: int
    """Elements of one block."""
    key: int
    op: str = ""
    strided: bool = False
    later: bool = False
    """Not waiting: `async_op=True`, then `wait`."""

    def __post_init__(self) -> None:
        self.rank, self.world = dist.get_rank(self.group), dist.get_world_size(self.group)
        self.names = tuple(
            r if self.group is None else dist.get_global_rank(self.group, r)
            for r in range(self.world)
        )
        self.arena = Arena(self.dtype, self.device, self.strided, self.key)
        self.one = self.key % self.world
        """The rank in the group that sends or receives, where that is one."""

    def block(self, source: int, slot: int = 0, n: int | None = None) -> Any:
        size = self.n if n is None else n
        return codes.payload(size, self.dtype, self.key, source, slot, device=self.device)

    def send(self, source: int, slot: int = 0, n: int | None = None) -> Any:
        return self.arena.buffer(self.block(source, slot, n), "input")

    def out(self, n: int | None = None) -> Any:
        return self.arena.empty(self.n if n is None else n)

    def moved(
        self, got: Any, source: int, slot: int = 0, slots: int = 1, n: int | None = None
    ) -> Expected:
        """`got` must hold the block of `source` for `slot`."""

        def make(a: int, b: int) -> Any:
            return self.block(a, b, n)

        explain = mover(make, self.world, slots, (source, slot), self.names)
        label = f"the block of rank {self.names[source]}"
        return Expected(got, make(source, slot), explain, label=label)

    def operands(self, n: int, *key: int) -> list[Any]:
        """What each rank gives to the reduction."""
        return [
            codes.operand(
                self.op or "SUM", n, self.dtype, r, self.world, self.key, *key, device=self.device
            )
            for r in range(self.world)
        ]

    def summed(self, got: Any, parts: list[Any]) -> Expected:
        op = self.op or "SUM"
        want = codes.reduced(op, parts)
        if want is None:
            raise Undefined(f"no exact {op} of {codes.name_of(self.dtype)} is defined")
        mean = op == "AVG"
        explain = (
            sums(parts, self.names, mean)
            if op in ("SUM", "AVG") and self.dtype != torch.bool
            else None
        )
        bound = mean_bound(parts) if mean and self.world & (self.world - 1) else None
        return Expected(got, want, explain, bound)

    def reduce_op(self) -> Any:
        if self.op == "PREMUL_SUM":
            return dist._make_nccl_premul_sum(0.5)
        return getattr(dist.ReduceOp, self.op or "SUM")

    def done(self, work: Any) -> None:
        if self.later and work is not None:
            work.wait()


class Undefined(Exception):
    """There is no result that could be expected."""


def mean_bound(parts: list[Any]) -> Any:
    """How far a mean may be off where 1/W is rounded: (W+2) u times the mean of the sizes."""
    dtype, world = parts[0].dtype, len(parts)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    size = sum(part.to(wide).abs() for part in parts)
    return (world + 2) * 2.0 ** -codes.bits(dtype) * size / world


Form = Callable[[Context], Iterator[Expected]]


def broadcast(c: Context) -> Iterator[Expected]:
    buffer = c.send(c.one) if c.rank == c.one else c.out()
    c.done(dist.broadcast(buffer, c.names[c.one], group=c.group, async_op=c.later))
    yield c.moved(buffer, c.one)


def all_gather(c: Context, more: int = 0) -> Iterator[Expected]:
    sizes = [c.n + more * r for r in range(c.world)]
    outs = [c.out(size) for size in sizes]
    c.done(dist.all_gather(outs, c.send(c.rank, 0, sizes[c.rank]), group=c.group, async_op=c.later))
    for r, out in enumerate(outs):
        yield c.moved(out, r, n=sizes[r])


def all_gather_uneven(c: Context) -> Iterator[Expected]:
    yield from all_gather(c, 1)


def all_gather_into_tensor(c: Context, name: str = "all_gather_into_tensor") -> Iterator[Expected]:
    out = c.out(c.n * c.world)
    c.done(_named(dist, name)(out, c.send(c.rank), group=c.group, async_op=c.later))
    for r in range(c.world):
        yield c.moved(out[r * c.n : (r + 1) * c.n], r)


def all_gather_single(c: Context) -> Iterator[Expected]:
    """The newer name."""
    yield from all_gather_into_tensor(c, "all_gather_single")


def _named(module: Any, *names: str) -> Any:
    """The first of these names that this torch has."""
    for name in names:
        if hasattr(module, name):
            return getattr(module, name)
    raise NotImplementedError(f"this torch has no {names[0]}")


def gather(c: Context) -> Iterator[Expected]:
    outs = [c.out() for _ in range(c.world)] if c.rank == c.one else None
    c.done(dist.gather(c.send(c.rank), outs, c.names[c.one], group=c.group, async_op=c.later))
    for r, out in enumerate(outs or ()):
        yield c.moved(out, r)


def scatter(c: Context) -> Iterator[Expected]:
    given = [c.send(c.one, r) for r in range(c.world)] if c.rank == c.one else None
    out = c.out()
    c.done(dist.scatter(out, given, c.names[c.one], group=c.group, async_op=c.later))
    yield c.moved(out, c.one, c.rank, c.world)


def all_to_all(c: Context) -> Iterator[Expected]:
    outs = [c.out() for _ in range(c.world)]
    given = [c.send(c.rank, to) for to in range(c.world)]
    c.done(dist.all_to_all(outs, given, group=c.group, async_op=c.later))
    for source, out in enumerate(outs):
        yield c.moved(out, source, c.rank, c.world)


def all_to_all_single(c: Context, more: int = 0) -> Iterator[Expected]:
    """Its input is packed also when the output is strided: a strided input is refused."""

    def size(source: int, to: int) -> int:
        return c.n + (source * 3 + to) % 4 * more

    given = torch.cat([c.block(c.rank, to, size(c.rank, to)) for to in range(c.world)])
    counts = [size(source, c.rank) for source in range(c.world)]
    out = c.out(sum(counts))
    splits = (counts, [size(c.rank, to) for to in range(c.world)]) if more else (None, None)
    c.done(
        dist.all_to_all_single(
            out,
            c.arena.buffer(given, "input", packed=True),
            *splits,
            group=c.group,
            async_op=c.later,
        )
    )
    for source, part in enumerate(out.split(counts)):
        yield c.moved(part, source, c.rank, c.world, counts[source])


def all_to_all_single_uneven(c: Context) -> Iterator[Expected]:
    yield from all_to_all_single(c, 1)


def send_recv(c: Context) -> Iterator[Expected]:
    """A ring; each second rank sends first."""
    to, source = (c.rank + 1) % c.world, (c.rank - 1) % c.world
    given, out = c.send(c.rank), c.out()

    def receive() -> None:
        dist.recv(out, c.names[source], group=c.group)

    if c.rank % 2 == 0:
        dist.send(given, c.names[to], group=c.group)
        receive()
    else:
        receive()
        dist.send(given, c.names[to], group=c.group)
    yield c.moved(out, source)


def batch_isend_irecv(c: Context) -> Iterator[Expected]:
    outs, calls = {}, []
    for peer in range(c.world):
        if peer != c.rank:
            outs[peer] = c.out()
            calls.append(dist.P2POp(dist.isend, c.send(c.rank, peer), c.names[peer], group=c.group))
            calls.append(dist.P2POp(dist.irecv, outs[peer], c.names[peer], group=c.group))
    for work in dist.batch_isend_irecv(calls) if calls else ():
        work.wait()
    for peer, out in outs.items():
        yield c.moved(out, peer, c.rank, c.world)


def all_reduce(c: Context) -> Iterator[Expected]:
    parts = c.operands(c.n)
    buffer = c.arena.buffer(parts[c.rank], "tensor")
    c.done(dist.all_reduce(buffer, c.reduce_op(), group=c.group, async_op=c.later))
    yield c.summed(buffer, parts)


def reduce(c: Context) -> Iterator[Expected]:
    parts = c.operands(c.n)
    buffer = c.arena.buffer(parts[c.rank], "tensor")
    c.done(dist.reduce(buffer, c.names[c.one], c.reduce_op(), group=c.group, async_op=c.later))
    told = c.summed(buffer, parts)
    if c.rank == c.one:
        yield told


def reduce_scatter_tensor(c: Context, name: str = "reduce_scatter_tensor") -> Iterator[Expected]:
    parts = c.operands(c.n * c.world)
    out, given = c.out(), c.arena.buffer(parts[c.rank], "input")
    call = _named(dist, name)
    c.done(call(out, given, op=c.reduce_op(), group=c.group, async_op=c.later))
    mine = slice(c.rank * c.n, (c.rank + 1) * c.n)
    yield c.summed(out, [part[mine] for part in parts])


def reduce_scatter_single(c: Context) -> Iterator[Expected]:
    """The newer name."""
    yield from reduce_scatter_tensor(c, "reduce_scatter_single")


def reduce_scatter_uneven(c: Context) -> Iterator[Expected]:
    sizes = [c.n + r for r in range(c.world)]
    parts = c.operands(sum(sizes))
    out = c.out(sizes[c.rank])
    given = [c.arena.buffer(part, "input") for part in parts[c.rank].split(sizes)]
    c.done(dist.reduce_scatter(out, given, op=c.reduce_op(), group=c.group, async_op=c.later))
    yield c.summed(out, [part.split(sizes)[c.rank] for part in parts])


def all_reduce_coalesced(c: Context) -> Iterator[Expected]:
    """Three in one launch."""
    each = [c.operands(c.n + k, k) for k in range(3)]
    buffers = [c.arena.buffer(parts[c.rank], "tensor") for parts in each]
    manager = dist.distributed_c10d._coalescing_manager
    with manager(group=c.group, device=torch.device(c.device), async_ops=True) as launched:
        for buffer in buffers:
            dist.all_reduce(buffer, c.reduce_op(), group=c.group)
    launched.wait()
    for buffer, parts in zip(buffers, each, strict=True):
        yield c.summed(buffer, parts)


def functional(c: Context) -> Iterator[Expected]:
    """The collectives that DTensor and torch.compile use."""
    import torch.distributed._functional_collectives as calls

    group = dist.group.WORLD if c.group is None else c.group
    parts = c.operands(c.n * c.world)
    given = c.arena.buffer(parts[c.rank], "input")
    wait = calls.wait_tensor
    yield c.summed(wait(calls.all_reduce(given, "sum", group)), parts)
    mine = slice(c.rank * c.n, (c.rank + 1) * c.n)
    out = wait(
        _named(calls, "reduce_scatter_single", "reduce_scatter_tensor")(given, "sum", 0, group)
    )
    yield c.summed(out, [part[mine] for part in parts])
    gathered = wait(
        _named(calls, "all_gather_single", "all_gather_tensor")(c.send(c.rank), 0, group)
    )
    for r in range(c.world):
        yield c.moved(gathered[r * c.n : (r + 1) * c.n], r)
    blocks = c.arena.buffer(torch.cat([c.block(c.rank, to) for to in range(c.world)]), "input")
    turned = wait(calls.all_to_all_single(blocks, None, None, group))
    for source in range(c.world):
        yield c.moved(turned[source * c.n : (source + 1) * c.n], source, c.rank, c.world)


def objects(c: Context) -> Iterator[Expected]:
    """all_gather_object, gather_object, broadcast_object_list, scatter_object_list."""

    def thing(rank: int, to: int = -1) -> dict[str, Any]:
        return {"rank": rank, "to": to, "text": "é" * (rank * 100), "key": c.key}

    each: list[Any] = [None] * c.world
    dist.all_gather_object(each, thing(c.rank), group=c.group)
    right = [each == [thing(r) for r in range(c.world)]]
    told = [thing(c.one)] if c.rank == c.one else [None]
    dist.broadcast_object_list(told, c.names[c.one], group=c.group)
    right.append(told == [thing(c.one)])
    got: list[Any] = [None]
    given = [thing(c.one, r) for r in range(c.world)] if c.rank == c.one else None
    dist.scatter_object_list(got, given, c.names[c.one], group=c.group)
    right.append(got == [thing(c.one, c.rank)])
    many: list[Any] | None = [None] * c.world if c.rank == c.one else None
    dist.gather_object(thing(c.rank), many, c.names[c.one], group=c.group)
    right.append(many is None or many == [thing(r) for r in range(c.world)])
    yield Expected(torch.tensor(right), torch.ones(4, dtype=torch.bool))


def barrier(c: Context) -> Iterator[Expected]:
    dist.barrier(group=c.group)
    return
    yield


MOVING: dict[str, Form] = {
    f.__name__: f
    for f in (
        broadcast,
        all_gather,
        all_gather_uneven,
        all_gather_into_tensor,
        all_gather_single,
        gather,
        scatter,
        all_to_all,
        all_to_all_single,
        all_to_all_single_uneven,
        send_recv,
        batch_isend_irecv,
    )
}
REDUCING: dict[str, Form] = {
    f.__name__: f
    for f in (
        all_reduce,
        reduce,
        reduce_scatter_tensor,
        reduce_scatter_single,
        reduce_scatter_uneven,
    )
}
BOTH: dict[str, Form] = {f.__name__: f for f in (all_reduce_coalesced, functional)}
ONCE: dict[str, Form] = {f.__name__: f for f in (objects, barrier)}
FORMS: dict[str, Form] = {**MOVING, **REDUCING, **BOTH, **ONCE}
