"""What is not one collective: several at once, calls that do not fit, huge counts, replay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from reefwatch.experiments.dist import codes, training
from reefwatch.experiments.dist.steps import Bench, Row, Step
from reefwatch.gather.loop.bits import fingerprints

_ROUNDS = 20
_LARGE = 2**31 + 1003
_PERIOD = 65521
"""A prime: what wraps at 2^31 or 2^32 lands on another phase of the pattern."""
_WINDOW = 1 << 24
_SHORT = 3.0
"""Seconds until gloo gives up a call that does not fit."""


def steps(level: str, options: dict[str, Any]) -> Iterator[Step]:
    """The cases of the phases `concurrency`, `mismatch`, `large` and `replay`."""
    yield _step("concurrency", "two groups at once", _groups)
    yield _step("concurrency", "groups made anew", _anew)
    if options["device"] != "cpu":
        yield _step("concurrency", "two streams", _streams)
        yield _step("concurrency", "in a captured graph", _captured)
    for name, call in _MISMATCHES.items():
        if name in ("dtype", "op") or (level == "full" and options["backend"] == "gloo"):
            yield _step("mismatch", name, _mismatch(name, call))
    if level == "full":
        for form in ("broadcast", "all_reduce"):
            yield _step("large", form, _huge(form))
    yield _step("replay", "micro-batches of the neighbour", replay)


def _step(phase: str, name: str, run: Callable[[Bench], Row]) -> Step:
    return Step(phase, name, run, {"form": name}, patience=2.0)


def _wrong(detail: str, why: str = "") -> Row:
    return {"state": "wrong", "detail": detail, "why": why}


_RIGHT: Row = {"state": "right", "rule": "same bits"}


def _addends(bench: Bench, n: int, key: int) -> list[Any]:
    return [
        codes.addend(n, torch.float32, r, bench.world, key, device=bench.device)
        for r in range(bench.world)
    ]


def _groups(bench: Bench) -> Row:
    """All-reduces of two groups in flight together, started in the same order everywhere."""
    pair = [dist.new_group(list(range(bench.world))) for _ in range(2)]
    return _interleaved(bench, pair, lambda n: None)


def _interleaved(bench: Bench, groups: list[Any], enter: Callable[[int], Any]) -> Row:
    bad = []
    for number in range(_ROUNDS):
        n = (1, 257, 4099, 65537)[number % 4]
        flying = []
        for k, group in enumerate(groups):
            parts = _addends(bench, n, 1000 + 2 * number + k)
            buffer = parts[bench.rank].clone()
            flying.append(
                (
                    buffer,
                    codes.reduced("SUM", parts),
                    dist.all_reduce(buffer, group=group, async_op=True),
                )
            )
        for k, (buffer, want, work) in enumerate(flying):
            work.wait()
            if not torch.equal(buffer, want):
                bad.append(f"round {number}, group {k}, {n} elements")
    return (
        _wrong(f"{len(bad)} of {2 * _ROUNDS} sums are wrong, first {bad[0]}")
        if bad
        else dict(_RIGHT)
    )


def _anew(bench: Bench) -> Row:
    """A fresh communicator each time: the first call after its start must be right."""
    bad = []
    for number in range(5):
        group = dist.new_group(list(range(bench.world)))
        parts = _addends(bench, 4099, 2000 + number)
        buffer = parts[bench.rank].clone()
        dist.all_reduce(buffer, group=group)
        gathered = [torch.zeros_like(buffer) for _ in range(bench.world)]
        dist.all_gather(gathered, parts[bench.rank], group=group)
        if not torch.equal(buffer, codes.reduced("SUM", parts)):
            bad.append(f"all_reduce in group {number}")
        if not all(torch.equal(one, part) for one, part in zip(gathered, parts, strict=True)):
            bad.append(f"all_gather in group {number}")
        dist.destroy_process_group(group)
    return _wrong(f"wrong after a fresh start: {', '.join(bad[:3])}") if bad else dict(_RIGHT)


def _streams(bench: Bench) -> Row:
    """Two groups on two streams, repeated."""
    cuda = bench.torch.cuda
    pair = [dist.new_group(list(range(bench.world))) for _ in range(2)]
    lanes = [cuda.Stream(), cuda.Stream()]
    bad = []
    for number in range(_ROUNDS):
        made = []
        for k, (group, lane) in enumerate(zip(pair, lanes, strict=True)):
            lane.wait_stream(cuda.current_stream())
            with cuda.stream(lane):
                parts = _addends(bench, 65537, 3000 + 2 * number + k)
                buffer = parts[bench.rank].clone()
                dist.all_reduce(buffer, group=group)
                made.append((buffer, codes.reduced("SUM", parts)))
        cuda.synchronize()
        bad += [
            f"round {number}, stream {k}"
            for k, (got, want) in enumerate(made)
            if not torch.equal(got, want)
        ]
    return _wrong(f"{len(bad)} sums are wrong, first {bad[0]}") if bad else dict(_RIGHT)


def _captured(bench: Bench) -> Row:
    """An all_reduce in a captured graph, replayed with new data."""
    cuda: Any = bench.torch.cuda
    buffer = torch.zeros(4099, device=bench.device)
    dist.all_reduce(buffer)
    cuda.synchronize()
    graph = bench.torch.cuda.CUDAGraph()
    with cuda.graph(graph):
        dist.all_reduce(buffer)
    bad = []
    for number in range(5):
        parts = _addends(bench, 4099, 4000 + number)
        buffer.copy_(parts[bench.rank])
        graph.replay()
        cuda.synchronize()
        if not torch.equal(buffer, codes.reduced("SUM", parts)):
            bad.append(str(number))
    return _wrong(f"wrong in replay {bad[0]} of 5") if bad else dict(_RIGHT)


def _dtype(bench: Bench, group: Any) -> Any:
    kind = torch.float32 if bench.rank == 0 else torch.int32
    tensor = torch.ones(8, dtype=kind, device=bench.device)
    dist.all_reduce(tensor, group=group)
    return tensor


def _op(bench: Bench, group: Any) -> Any:
    tensor = torch.full((8,), float(bench.rank + 1), device=bench.device)
    op = dist.ReduceOp.SUM if bench.rank == 0 else dist.ReduceOp.MAX
    dist.all_reduce(tensor, op, group=group)
    return tensor


def _shape(bench: Bench, group: Any) -> Any:
    tensor = torch.ones(8 if bench.rank == 0 else 6, device=bench.device)
    dist.all_reduce(tensor, group=group)
    return tensor


def _order(bench: Bench, group: Any) -> Any:
    tensor = torch.full((8,), float(bench.rank + 1), device=bench.device)
    calls: list[Callable[[], Any]] = [
        lambda: dist.all_reduce(tensor, group=group),
        lambda: dist.broadcast(tensor, 0, group=group),
    ]
    for call in calls if bench.rank == 0 else calls[::-1]:
        call()
    return tensor


def _skipped(bench: Bench, group: Any) -> Any:
    tensor = torch.ones(8, device=bench.device)
    if bench.rank:
        dist.all_reduce(tensor, group=group)
    return tensor


_MISMATCHES: dict[str, Callable[[Bench, Any], Any]] = {
    "dtype": _dtype,
    "op": _op,
    "shape": _shape,
    "order": _order,
    "one rank stays away": _skipped,
}


def _mismatch(name: str, call: Callable[[Bench, Any], Any]) -> Callable[[Bench], Row]:
    """Right when some rank raises; each in a group of its own, which may be spoilt by it."""

    def run(bench: Bench) -> Row:
        patience = timedelta(
            seconds=_SHORT if bench.backend == "gloo" else bench.options["timeout"]
        )
        group = dist.new_group(list(range(bench.world)), timeout=patience)
        raised, got = "", ""
        try:
            got = str(call(bench, group).flatten()[0].item())
        except Exception as error:
            raised = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:120]}"
        each = bench.tell_all(f"mismatch/{name}", raised)
        if any(each):
            rank = next(r for r, words in enumerate(each) if words)
            return {"state": "right", "rule": "refused", "detail": f"rank {rank}: {each[rank]}"}
        values = bench.tell_all(f"mismatched/{name}", got)
        held = ", ".join(f"rank {r} holds {value}" for r, value in enumerate(values))
        return _wrong(f"no rank raised; {held}", "accepted in silence")

    return run


def _pattern(begin: int, length: int, source: int, device: Any) -> Any:
    index = torch.arange(begin, begin + length, device=device) % _PERIOD
    return (index * 40503 % _PERIOD * (source + 3) % 50).to(torch.int8)


def _huge(form: str) -> Callable[[Bench], Row]:
    """More than 2^31 elements of int8, checked at the begin, the middle and the end."""

    def run(bench: Bench) -> Row:
        _room(bench)
        world = min(bench.world, 2)
        tensor = torch.zeros(_LARGE, dtype=torch.int8, device=bench.device)
        places = [0, _LARGE // 2 - _WINDOW // 2, 2**31 - _WINDOW // 2, _LARGE - _WINDOW]
        for begin in places:
            if (form == "all_reduce" and bench.rank < world) or bench.rank == 0:
                tensor[begin : begin + _WINDOW] = _pattern(
                    begin, min(_WINDOW, _LARGE - begin), bench.rank, bench.device
                )
        if form == "all_reduce":
            dist.all_reduce(tensor)
        else:
            dist.broadcast(tensor, 0)
        bad = 0
        for begin in places:
            length = min(_WINDOW, _LARGE - begin)
            want = _pattern(begin, length, 0, bench.device)
            for rank in range(1, world if form == "all_reduce" else 1):
                want = want + _pattern(begin, length, rank, bench.device)
            bad += int((tensor[begin : begin + length] != want).sum())
        return (
            _wrong(f"{bad} elements of 4 windows of {_WINDOW} are wrong") if bad else dict(_RIGHT)
        )

    return run


def _room(bench: Bench) -> None:
    """Raises NotImplementedError where 2^31 bytes for each rank do not fit with some to spare."""
    if bench.device != "cpu":
        free = bench.torch.cuda.mem_get_info()[0]
    else:
        with open("/proc/meminfo") as file:
            lines = dict(line.split(":", 1) for line in file)
        free = int(lines["MemAvailable"].split()[0]) * 1024 // bench.world
    fits = bench.tell_all("room", "1" if free > 2 * _LARGE else "")
    if not all(fits):
        raise NotImplementedError(
            f"{2 * _LARGE / 2**30:.0f} GiB of memory for each rank are not free"
        )


def replay(bench: Bench) -> Row:
    """The gradients of the neighbour's micro-batch, computed here: the same bits, or a bad card.

    A checksum of averaged replicas cannot see it: all share the damage.
    Source: the replay idea of AWS's ddp-sdc-detection example.
    """
    world, rounds = bench.world, 4 if bench.device == "cpu" else 16
    suspects: dict[int, int] = {}
    for number in range(rounds):
        told = {}
        for source in (bench.rank, (bench.rank - 1) % world):
            told[source] = _digest(bench, number * world + source)
        each = [
            text.split()
            for text in bench.tell_all(
                f"replay/{number}", f"{told[bench.rank]} {told[(bench.rank - 1) % world]}"
            )
        ]
        pairs = {r for r in range(world) if each[r][0] != each[(r + 1) % world][1]}
        for r in pairs:  # rank r and the one behind it disagree on r's batch
            for one in (r, (r + 1) % world):
                suspects[one] = suspects.get(one, 0) + 1
    if not suspects:
        return dict(_RIGHT)
    most = max(suspects.values())
    who = [rank for rank, times in suspects.items() if times == most]
    words = "one of " if len(who) > 1 else ""
    names = f"{words}rank {', '.join(map(str, sorted(who)))}"
    return {
        **_wrong(f"{names} computes other gradients from the same micro-batch", names),
        "ranks": sorted(who),
    }


def _digest(bench: Bench, number: int) -> str:
    """A checksum of the gradients of one micro-batch."""
    net = training.Net(torch.float32, bench.device)
    tokens, labels = training.batch(number, 64, bench.device)
    torch.nn.functional.cross_entropy(net(tokens), labels).backward()
    flat = torch.cat([p.grad.reshape(-1) for p in net.parameters() if p.grad is not None])
    return str(fingerprints(torch, [flat])[0]).replace(" ", "")
