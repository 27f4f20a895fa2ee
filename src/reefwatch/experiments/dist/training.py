"""Does parallel training equal one process? In fp64, where rounding leaves six orders of room."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from reefwatch.core.claim import Tolerance
from reefwatch.experiments.dist import codes
from reefwatch.experiments.dist.steps import Bench, Row, Step
from reefwatch.experiments.dist.wrapped import full, mesh_of

LIMIT = Tolerance(
    1e-9,
    "relative to the largest element",
    "fp64 rounds by 1e-16; a few updates in another order of summation were seen to differ by up "
    "to 4e-15, and a missing or doubled contribution by more than 1e-3",
)
_EACH = 4
"""Samples per rank and micro-batch."""
_UPDATES = 4
Kwargs = dict[str, Any]


class Net(nn.Module):  # type: ignore[misc]
    """Embedding, residual blocks with normalisation, a head."""

    def __init__(self, dtype: Any = torch.float64, device: Any = "cpu") -> None:
        super().__init__()
        more = {"dtype": dtype, "device": device}
        self.embedding = nn.Embedding(50, 16, **more)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Linear(16, 37, **more),
                nn.GELU(),
                nn.Linear(37, 16, **more),
                nn.LayerNorm(16, **more),
            )
            for _ in range(3)
        )
        self.head = nn.Linear(16, 50, bias=False, **more)
        drawn = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for p in self.parameters():  # not the global generator: all ranks draw the same
                p.copy_(torch.randn(p.shape, generator=drawn, dtype=torch.float64) * 0.2)

    def forward(self, tokens: Any) -> Any:
        hidden = self.embedding(tokens).mean(1)
        for block in self.blocks:
            hidden = hidden + block(hidden)
        return self.head(hidden)


def batch(number: int, size: int, device: Any) -> tuple[Any, Any]:
    """Tokens [size, 6] and labels [size] of one micro-batch of all ranks together."""
    tokens = codes.hashes(size * 6, 99, number, device=device) % 50
    return tokens.reshape(size, 6), codes.hashes(size, 98, number, device=device) % 50


def steps(level: str) -> Iterator[Step]:
    """The cases of the phases `training` and `tensor`."""
    for name, (run, given) in _CASES.items():
        if level == "full" or name in _QUICK:
            yield _step("training", name, run, given)
    for name, (run, given) in _TENSOR.items():
        yield _step("tensor", name, run, given)


def _step(phase: str, name: str, run: Callable[..., Row], given: Kwargs) -> Step:
    def one(bench: Bench) -> Row:
        return run(bench, **given)

    return Step(phase, name, one, {"form": name}, patience=2.0)


def _alone(bench: Bench, clip: float, accumulate: int) -> tuple[Net, list[tuple[float, float]]]:
    """The same training in one process: (model, [(loss, norm of the gradient)])."""
    net = Net(device=bench.device)
    optimizer = _optimizer(net)
    curve = []
    for update in range(_UPDATES):
        optimizer.zero_grad()
        loss = 0.0
        for k in range(accumulate):
            tokens, labels = batch(update * accumulate + k, _EACH * bench.world, bench.device)
            part = nn.functional.cross_entropy(net(tokens), labels) / accumulate
            part.backward()
            loss += part.item()
        norm = float(nn.utils.clip_grad_norm_(net.parameters(), clip)) if clip else 0.0
        optimizer.step()
        curve.append((loss, norm))
    return net, curve


def _optimizer(module: Any) -> Any:
    return torch.optim.AdamW(module.parameters(), lr=1e-2, eps=1e-3)


def _together(
    bench: Bench, module: Any, clip: float, accumulate: int, norm_of: Any = None
) -> tuple[list[float], list[float]]:
    """Train the wrapped module on this rank's share; (losses here, norms)."""
    optimizer = _optimizer(module)
    losses, norms = [], []
    mine = slice(bench.rank * _EACH, (bench.rank + 1) * _EACH)
    for update in range(_UPDATES):
        optimizer.zero_grad()
        loss = 0.0
        for k in range(accumulate):
            last = k == accumulate - 1
            tokens, labels = batch(update * accumulate + k, _EACH * bench.world, bench.device)
            with _syncing(module, last):
                part = nn.functional.cross_entropy(module(tokens[mine]), labels[mine]) / accumulate
                part.backward()
            loss += part.item()
        if clip:
            norm = norm_of(clip) if norm_of else nn.utils.clip_grad_norm_(module.parameters(), clip)
            norms.append(float(full(norm)))
        optimizer.step()
        losses.append(loss)
    return losses, norms


def _syncing(module: Any, last: bool) -> Any:
    if hasattr(module, "set_requires_gradient_sync"):
        module.set_requires_gradient_sync(last)
    if hasattr(module, "no_sync") and not last:
        return module.no_sync()
    return contextlib.nullcontext()


def _equal(
    bench: Bench,
    name: str,
    module: Any,
    clip: float = 0.0,
    accumulate: int = 1,
    whole: Any = None,
    norm_of: Any = None,
) -> Row:
    """Train both ways and compare losses, norms and weights. `whole()` gives the full weights."""
    net, curve = _alone(bench, clip, accumulate)
    losses, norms = _together(bench, module, clip, accumulate, norm_of)
    each = bench.tell_all(f"loss/{name}", ",".join(v.hex() for v in losses))
    means = [
        sum(vs) / bench.world
        for vs in zip(*([float.fromhex(v) for v in text.split(",")] for text in each), strict=True)
    ]
    far = {
        f"loss of update {n}": abs(m - c[0]) / abs(c[0])
        for n, (m, c) in enumerate(zip(means, curve, strict=True))
    }
    far.update(
        {
            f"gradient norm of update {n}": abs(m - c[1]) / c[1]
            for n, (m, c) in enumerate(zip(norms, curve, strict=False))
        }
    )
    got = whole() if whole else [full(p).detach() for p in module.parameters()]
    for (path, want), p in zip(net.named_parameters(), got, strict=True):
        far[f"weight {path}"] = distance(p, want.detach())
    return told(far)


def distance(got: Any, want: Any) -> float:
    """The largest difference relative to the largest element."""
    if got.shape != want.shape:
        return float("inf")
    return float((got.to(want.device) - want).abs().max() / (want.abs().max() + 1e-300))


def told(far: dict[str, float], limit: Tolerance = LIMIT) -> Row:
    """The row for distances by name."""
    what, worst = max(far.items(), key=lambda pair: float("inf") if pair[1] != pair[1] else pair[1])
    row: Row = {"error": worst, "limit": limit.limit, "rule": limit.why}
    beyond = [name for name, value in far.items() if limit.exceeded_by(value)]
    if not beyond:
        return {"state": "right", **row}
    words = (
        f"{what} is off by {worst:.1e} (limit {limit.limit:.0e}, {limit.unit}); first {beyond[0]}"
    )
    return {"state": "wrong", **row, "detail": words, "why": f"first seen in the {beyond[0]}"}


def _ddp(bench: Bench, clip: float = 0.0, accumulate: int = 1, **more: Any) -> Row:
    net = Net(device=bench.device)
    module = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.003, **more)
    return _equal(bench, f"ddp{clip}{accumulate}", module, clip, accumulate)


def _fsdp2(
    bench: Bench,
    clip: float = 0.0,
    accumulate: int = 1,
    checkpoint: bool = False,
    offload: bool = False,
) -> Row:
    module = sharded(bench, Net(device=bench.device), checkpoint, offload)
    return _equal(bench, f"fsdp2{clip}{accumulate}{checkpoint}{offload}", module, clip, accumulate)


def sharded(
    bench: Bench, net: Net, checkpoint: bool = False, offload: bool = False, mesh: Any = None
) -> Any:
    """The model under FSDP2, a unit for each block."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

    more: Kwargs = {"mesh": mesh or mesh_of(bench)}
    if offload:
        more["offload_policy"] = CPUOffloadPolicy(pin_memory=bench.device != "cpu")
    for number, block in enumerate(net.blocks):
        if checkpoint:
            net.blocks[number] = checkpoint_wrapper(block)
        fully_shard(net.blocks[number], **more)
    return fully_shard(net, **more)


def _fsdp1(bench: Bench, strategy: str = "FULL_SHARD", accumulate: int = 1) -> Row:
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    module = FullyShardedDataParallel(
        Net(device=bench.device),
        auto_wrap_policy=ModuleWrapPolicy({nn.Sequential}),
        device_id=torch.device(bench.device),
        use_orig_params=True,
        sharding_strategy=ShardingStrategy[strategy],
    )

    def whole() -> list[Any]:
        with FullyShardedDataParallel.summon_full_params(module):
            return [p.detach().clone() for p in module.parameters()]

    return _equal(bench, f"fsdp1{strategy}{accumulate}", module, 0.0, accumulate, whole)


def _tensor_parallel(bench: Bench) -> Row:
    """Column and row parallel layers against the same layers in one process."""
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    more: Kwargs = {"dtype": torch.float64, "device": bench.device}
    inner = 12 * bench.world
    alone = nn.Sequential(nn.Linear(16, inner, **more), nn.GELU(), nn.Linear(inner, 16, **more))
    with torch.no_grad():
        for n, p in enumerate(alone.parameters()):
            drawn = codes.hashes(p.numel(), 7, n, device=bench.device) % 2001
            p.copy_((drawn.double() / 1000 - 1).reshape(p.shape) * 0.3)
    module = copy.deepcopy(alone)
    parallelize_module(module, mesh_of(bench), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    x = (codes.hashes(8 * 16, 8, device=bench.device) % 2001).double().reshape(8, 16) / 1000 - 1
    (module(x) ** 2).mean().backward()
    (alone(x) ** 2).mean().backward()
    far = {"output": distance(full(module(x)).detach(), alone(x).detach())}
    for (path, want), p in zip(alone.named_parameters(), module.parameters(), strict=True):
        far[f"gradient {path}"] = distance(full(p.grad), want.grad)
    return told(far)


def _redistribute(bench: Bench) -> Row:
    """Every way from one placement to another, of a 13 by 7 tensor; and of a partial sum."""
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    mesh = mesh_of(bench)
    whole = codes.hashes(91, 6, device=bench.device).reshape(13, 7) % 1000
    bad = []
    for start in (Shard(0), Shard(1), Replicate()):
        placed = distribute_tensor(whole, mesh, [start])
        bad += [
            f"{start} to {to}"
            for to in (Shard(0), Shard(1), Replicate())
            if not torch.equal(placed.redistribute(mesh, [to]).full_tensor(), whole)
        ]
    partial = DTensor.from_local(whole + bench.rank, mesh, [Partial()])
    want = whole * bench.world + sum(range(bench.world))
    bad += [
        f"partial sum to {to}"
        for to in (Shard(0), Shard(1), Replicate())
        if not torch.equal(partial.redistribute(mesh, [to]).full_tensor(), want)
    ]
    if bad:
        return {"state": "wrong", "detail": f"wrong elements after {', '.join(bad)}", "why": bad[0]}
    return {"state": "right", "rule": "same bits"}


_QUICK = ("DDP", "FSDP2 clipping and accumulating", "FSDP1")
_CASES: dict[str, tuple[Callable[..., Row], Kwargs]] = {
    "DDP": (_ddp, {}),
    "DDP clipping and accumulating": (_ddp, {"clip": 0.5, "accumulate": 2}),
    "FSDP2": (_fsdp2, {}),
    "FSDP2 clipping and accumulating": (_fsdp2, {"clip": 0.5, "accumulate": 2}),
    "FSDP2 activation checkpointing": (_fsdp2, {"checkpoint": True}),
    "FSDP2 CPU offload": (_fsdp2, {"offload": True}),
    "FSDP1": (_fsdp1, {}),
    "FSDP1 SHARD_GRAD_OP accumulating": (_fsdp1, {"strategy": "SHARD_GRAD_OP", "accumulate": 2}),
}
_TENSOR: dict[str, tuple[Callable[..., Row], Kwargs]] = {
    "column and row parallel": (_tensor_parallel, {}),
    "redistribution": (_redistribute, {}),
}
