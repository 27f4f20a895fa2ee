"""The probe under DDP, DataParallel, FSDP1, FSDP2 and HSDP."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from reefwatch.experiments.dist import codes, probe
from reefwatch.experiments.dist.steps import Bench, Row, Step

STEPS = 3
_BUCKET = 0.006
"""MB: several buckets also for a small probe."""
_RANGE = "a gradient beyond the range of fp16 (65504) becomes inf on the way, in silence"


def mesh_of(bench: Bench, shape: tuple[int, ...] | None = None) -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    kind = "cpu" if bench.device == "cpu" else "cuda"
    names = ("replicate", "shard") if shape else ("shard",)
    return init_device_mesh(kind, shape or (bench.world,), mesh_dim_names=names)


def full(tensor: Any) -> Any:
    """The whole of a tensor of which this rank may hold a shard."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def steps(level: str, world: int, options: dict[str, Any]) -> Iterator[Step]:
    """The cases of both phases, `ddp` and `fsdp`."""
    for name, about in _DDP.items():
        if level == "full" or name in _QUICK:
            yield _step("ddp", name, _ddp, about)
    for name, about in _FSDP.items():
        if (level == "full" or name in _QUICK) and world >= about.get("ranks", 1):
            yield _step("fsdp", name, _fsdp1 if "strategy" in about else _fsdp2, about)


def _step(phase: str, name: str, run: Callable[..., Row], about: dict[str, Any]) -> Step:
    def one(bench: Bench) -> Row:
        return run(bench, **about)

    return Step(phase, name, one, {"form": name}, patience=2.0)


_QUICK = (
    "DDP",
    "DDP accumulating with no_sync",
    "DDP bf16",
    "FSDP2",
    "FSDP2 accumulating",
    "FSDP1",
)
_DDP: dict[str, dict[str, Any]] = {
    "DDP": {},
    "DDP accumulating with no_sync": {"accumulate": 3, "gradient_as_bucket_view": True},
    "DDP accumulating, no bucket view": {"accumulate": 2},
    "DDP bf16": {"dtype": "bfloat16"},
    "DDP fp16": {"dtype": "float16"},
    "DDP fp64": {"dtype": "float64"},
    "DDP static graph": {"static_graph": True},
    "DDP unused parameters": {"find_unused_parameters": True, "unused": True},
    "DDP allreduce hook": {"hook": "allreduce_hook"},
    "DDP fp16 hook": {"hook": "fp16_compress_hook", "carried": "float16", "rounding": 2.0**-9},
    "DDP bf16 hook": {"hook": "bf16_compress_hook", "carried": "bfloat16", "rounding": 2.0**-6},
    "DDP fp16 hook beyond its range": {"hook": "fp16_compress_hook", "overflows": True},
    "DataParallel": {"kind": "DataParallel"},
}
_FSDP: dict[str, dict[str, Any]] = {
    "FSDP2": {},
    "FSDP2 accumulating": {"accumulate": 3},
    "FSDP2 without resharding": {"reshard_after_forward": False},
    "FSDP2 reduce in bf16": {"reduce": "bfloat16", "rounding": 2.0**-6},
    "FSDP2 CPU offload": {"offload": True},
    "FSDP2 CPU offload accumulating": {"offload": True, "accumulate": 2},
    "FSDP2 bf16": {"dtype": "bfloat16"},
    "HSDP": {"ranks": 4, "hybrid": True},
    "FSDP1": {"strategy": "FULL_SHARD"},
    "FSDP1 SHARD_GRAD_OP": {"strategy": "SHARD_GRAD_OP"},
    "FSDP1 NO_SHARD": {"strategy": "NO_SHARD"},
    "FSDP1 accumulating": {"strategy": "FULL_SHARD", "accumulate": 2},
}


def _made(
    bench: Bench, dtype: str, carried: str = ""
) -> tuple[probe.Probe, list[tuple[int, ...]], Any]:
    kind = codes.dtype_of(dtype)
    inside = codes.dtype_of(carried) if carried else kind
    layout = probe.layout(bench)
    return (
        probe.Probe(layout, kind, bench.device, inside),
        [s for some in layout for s in some],
        inside,
    )


def _ddp(
    bench: Bench,
    dtype: str = "float32",
    accumulate: int = 1,
    hook: str = "",
    carried: str = "",
    rounding: float = 0.0,
    unused: bool = False,
    overflows: bool = False,
    kind: str = "DDP",
    **more: Any,
) -> Row:
    module, shapes, inside = _made(bench, dtype, carried)
    if kind == "DataParallel":
        return _data_parallel(bench, module, shapes, inside)
    wrapped = nn.parallel.DistributedDataParallel(module, bucket_cap_mb=_BUCKET, **more)
    if hook:
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        wrapped.register_comm_hook(None, getattr(default_hooks, hook))
    many = len(shapes)

    def skip(rank: int) -> tuple[int, ...]:
        return ((1, many - 1) if rank == 0 else (many // 2,)) if unused else ()

    bad: Row | None = None
    for step in range(STEPS):
        wrapped.zero_grad(set_to_none=step % 2 == 0)
        some = [step * accumulate + k for k in range(accumulate)]
        for k, number in enumerate(some):
            last = k == accumulate - 1
            with contextlib.nullcontext() if last else wrapped.no_sync():
                wrapped((bench.rank, bench.world, number), skip(bench.rank)).backward()
        grads = [unit.p.grad for unit in module.units()]
        if overflows:
            return _overflow(grads)
        told = probe.judged(grads, shapes, inside, bench.world, some, rounding, skip)
        bad = bad or (None if told is None else {**told, "step": step})
    return bad or {"state": "right", "rule": _rule(bench, rounding)}


def _rule(bench: Bench, rounding: float) -> str:
    if rounding:
        return "rounding bound of the narrower dtype"
    return "rounding bound of 1/W" if bench.world & (bench.world - 1) else "same bits"


def _overflow(grads: list[Any]) -> Row:
    """The range of fp16 cannot hold these gradients: torch must say so, and does not."""
    lost = sum(int((~torch.isfinite(g)).sum()) for g in grads if g is not None)
    if lost:
        return {"state": "wrong", "detail": f"{lost} elements became inf; {_RANGE}", "why": _RANGE}
    return {"state": "right", "rule": "finite"}


def _data_parallel(
    bench: Bench, module: probe.Probe, shapes: list[tuple[int, ...]], inside: Any
) -> Row:
    if bench.device == "cpu" or bench.torch.cuda.device_count() < 2:
        raise NotImplementedError("DataParallel needs two GPUs in one process")
    if bench.rank:  # one process drives the cards of all
        return {"state": "right", "rule": "same bits"}
    bad = _replicated(bench, module, shapes, inside)
    return bad or {"state": "right", "rule": "same bits"}


class _Each(nn.Module):  # type: ignore[misc]
    """Gives each replica the number of its share as its rank."""

    def __init__(self, module: probe.Probe, world: int, step: int) -> None:
        super().__init__()
        self.module, self.world, self.step = module, world, step

    def forward(self, numbers: Any) -> Any:
        return self.module((int(numbers[0]), self.world, self.step)).reshape(1)


def _replicated(
    bench: Bench, module: probe.Probe, shapes: list[tuple[int, ...]], inside: Any
) -> Row | None:
    cards = list(range(2))
    module.to("cuda:0")
    for step in range(STEPS):
        module.zero_grad()
        parallel = nn.DataParallel(_Each(module, 2, step), device_ids=cards)
        parallel(torch.arange(2, device="cuda:0")).mean().backward()
        grads = [unit.p.grad for unit in module.units()]
        told = probe.judged(grads, shapes, inside, 2, [step])
        if told is not None:
            return {**told, "step": step}
    return None


def _fsdp2(
    bench: Bench,
    dtype: str = "float32",
    accumulate: int = 1,
    reduce: str = "",
    rounding: float = 0.0,
    offload: bool = False,
    hybrid: bool = False,
    ranks: int = 1,
    **more: Any,
) -> Row:
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

    module, shapes, inside = _made(bench, dtype)
    whole = [unit.p.detach().clone() for unit in module.units()]
    given = {"mesh": mesh_of(bench, (2, bench.world // 2) if hybrid else None), **more}
    if reduce:
        given["mp_policy"] = MixedPrecisionPolicy(reduce_dtype=codes.dtype_of(reduce))
    if offload:
        given["offload_policy"] = CPUOffloadPolicy(pin_memory=bench.device != "cpu")
    for block in module.blocks:
        fully_shard(block, **given)
    sharded: Any = fully_shard(module, **given)
    gathered = Gathered(module, whole, bench.world)
    bad: Row | None = None
    for step in range(STEPS):
        sharded.zero_grad()
        some = [step * accumulate + k for k in range(accumulate)]
        for k, number in enumerate(some):
            sharded.set_requires_gradient_sync(k == accumulate - 1)
            sharded((bench.rank, bench.world, number)).backward()
        grads = [
            None if u.p.grad is None else full(u.p.grad.to(bench.device)) for u in module.units()
        ]
        told = gathered.wrong or probe.judged(
            grads, shapes, inside, bench.world, some, rounding, sharded=not hybrid
        )
        bad = bad or (None if told is None else {**told, "step": step})
    return bad or {"state": "right", "rule": _rule(bench, rounding)}


class Gathered:
    """Compares each gathered parameter with the prescribed one, when its unit is called."""

    def __init__(self, module: probe.Probe, whole: list[Any], world: int) -> None:
        self.wrong: Row | None = None
        self._world = world
        for unit, want in zip(module.units(), whole, strict=True):
            unit.register_forward_pre_hook(self._looking(want))

    def _looking(self, want: Any) -> Callable[..., None]:
        def look(unit: Any, args: Any) -> None:
            got = full(unit.p.detach())
            if self.wrong is None and not torch.equal(got, want.to(got.dtype)):
                self.wrong = self._told(unit.number, got, want.to(got.dtype))

        return look

    def _told(self, number: int, got: Any, want: Any) -> Row:
        if got.shape != want.shape:
            words = f"parameter {number} has shape {tuple(got.shape)}, not {tuple(want.shape)}"
            return {"state": "wrong", "detail": words, "why": "the gathered parameter is wrong"}
        rows = (got != want).reshape(want.shape[0], -1).any(1).nonzero().flatten().tolist()
        per = -(-want.shape[0] // self._world)
        ranks = sorted({row // per for row in rows})
        shards = ("shard of rank " if len(ranks) == 1 else "shards of ranks ") + ", ".join(
            map(str, ranks)
        )
        why = f"the gathered parameter is wrong in the {shards}"
        words = f"parameter {number}: rows {rows[0]} to {rows[-1]} of {want.shape[0]} differ"
        return {
            "state": "wrong",
            "detail": words,
            "why": why,
            "wrong": len(rows),
            "of": want.shape[0],
        }


def _fsdp1(bench: Bench, strategy: str, accumulate: int = 1) -> Row:
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    module, shapes, inside = _made(bench, "float32")
    sharded = FullyShardedDataParallel(
        module,
        auto_wrap_policy=ModuleWrapPolicy({probe.Block}),
        device_id=torch.device(bench.device),
        use_orig_params=True,
        sharding_strategy=ShardingStrategy[strategy],
    )
    bad: Row | None = None
    for step in range(STEPS):
        sharded.zero_grad()
        some = [step * accumulate + k for k in range(accumulate)]
        for k, number in enumerate(some):
            with contextlib.nullcontext() if k == accumulate - 1 else sharded.no_sync():
                sharded((bench.rank, bench.world, number)).backward()
        with FullyShardedDataParallel.summon_full_params(sharded, with_grads=True):
            grads = [None if u.p.grad is None else u.p.grad.clone() for u in module.units()]
        told = probe.judged(grads, shapes, inside, bench.world, some)
        bad = bad or (None if told is None else {**told, "step": step})
    return bad or {"state": "right", "rule": _rule(bench, 0.0)}
