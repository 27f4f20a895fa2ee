"""A bank of mutants of collectives, DDP and FSDP2: `torchrun ... dist_mutants.py OUT SEED COUNT`.

Each changes what one rank gives or gets, at one site, by one operator; sites, ranks, steps and
elements are drawn anew from the seed. Then the checks of `reefwatch dist` are run, and rank 0 tells
for each mutant whether it was found and whether the rank was named, and the clean runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from reefwatch.experiments.dist import afterwards, matrix, more, training, wrapped
from reefwatch.experiments.dist.steps import Bench, Row

FORMS = (
    "all_reduce",
    "broadcast",
    "all_gather",
    "all_gather_into_tensor",
    "gather",
    "scatter",
    "all_to_all",
    "all_to_all_single",
    "reduce",
    "reduce_scatter_tensor",
)
GIVEN = ("drop", "double", "scale", "flip")
"""Operators on what a rank gives."""
GOT = ("swap", "stale", "delay", "mis-size", "flip", "scale", "drop", "double")
"""Operators on what a rank gets."""
STEPS = wrapped.STEPS


class Fault:
    """One mutant: an operator at a site."""

    def __init__(self, drawn: random.Random, world: int) -> None:
        self.kind = drawn.choice(("collective", "collective", "ddp", "gather", "scatter"))
        self.rank = drawn.randrange(world)
        self.side = drawn.choice(("given", "got"))
        self.element = drawn.random()
        self.bit = drawn.randrange(20)
        self.step = drawn.randrange(1, STEPS)
        self.form = drawn.choice(FORMS)
        self.bucket = drawn.randrange(3)
        self.hit = False
        if self.kind == "gather":  # no update: what was gathered before is the same
            self.side = "got"
        if self.form == "reduce" and self.kind == "collective":
            self.side = "given"
        operators = GIVEN if self.side == "given" else GOT
        if self.kind == "gather":
            operators = tuple(op for op in operators if op not in ("stale", "delay"))
        self.op = drawn.choice(operators)

    def name(self) -> str:
        site = {"collective": self.form, "ddp": f"DDP bucket {self.bucket}"}.get(
            self.kind, f"FSDP2 {'all-gather' if self.kind == 'gather' else 'reduce-scatter'}"
        )
        when = "" if self.kind == "collective" else f", step {self.step}"
        does = "gives" if self.side == "given" else "gets"
        return f"{self.op} what rank {self.rank} {does} ({site}{when})"

    def sums(self) -> bool:
        """True where what is given is added to what the others give: a flipped bit names nobody."""
        return self.kind != "collective" or "reduce" in self.form

    def give(self, tensor: Any) -> Any:
        """What the rank gives in place of `tensor`."""
        self.hit = True
        made = tensor.clone()
        self._change(made)
        return made

    def get(self, tensor: Any, before: Any, last: Any) -> None:
        """Change what the rank got, in place."""
        self.hit = True
        flat = tensor.view(-1)
        n = flat.numel()
        if self.op == "swap":
            half = n // 2
            flat[: 2 * half].copy_(torch.cat([flat[half : 2 * half], flat[:half]]).clone())
        elif self.op == "stale":
            same = last is not None and last.numel() == n  # DDP makes its buckets anew
            flat.copy_(last.view(-1) if same else before.view(-1))
        elif self.op == "delay":
            flat.copy_(before.view(-1))
        elif self.op == "mis-size":
            flat[n - max(1, n // 4) :] = before.view(-1)[n - max(1, n // 4) :]
        else:
            self._change(tensor)

    def _change(self, tensor: Any) -> None:
        flat = tensor.view(-1)
        if self.op == "drop":
            flat.zero_()
        elif self.op == "double":
            flat.mul_(2)
        elif self.op == "scale":
            flat.mul_(0.5)
        elif self.op == "flip":
            words = flat.view(torch.int32)
            words[int(self.element * len(words) * 0.5)] ^= 1 << self.bit


@contextlib.contextmanager
def planted(fault: Fault, rank: int) -> Iterator[None]:
    """The mutant in place."""
    with contextlib.ExitStack() as stack:
        if fault.kind == "collective":
            stack.enter_context(patched(dist, fault.form, collective(fault, rank)))
        elif fault.kind == "ddp":
            stack.enter_context(patched(nn.parallel, "DistributedDataParallel", ddp(fault, rank)))
        else:
            import torch.distributed.fsdp as fsdp

            stack.enter_context(patched(fsdp, "fully_shard", sharded(fault, rank)))
        yield


@contextlib.contextmanager
def patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)


def collective(fault: Fault, rank: int) -> Callable[..., Any]:
    original = getattr(dist, fault.form)
    last: list[Any] = []
    source = {"gather": 0, "all_reduce": 0, "broadcast": 0, "reduce": 0}.get(fault.form, 1)
    target = {"gather": 1}.get(fault.form, 0)

    def call(*args: Any, **kwargs: Any) -> Any:
        if rank != fault.rank:
            return original(*args, **kwargs)
        words = list(args)
        if fault.side == "given":
            given = words[source]
            if source == target:  # in place: what the others get is changed, and so is this
                given.copy_(fault.give(given))
            elif isinstance(given, list):
                words[source] = [fault.give(one) for one in given]
            elif given is not None:
                words[source] = fault.give(given)
            return original(*words, **kwargs)
        outs = words[target] if isinstance(words[target], list) else [words[target]]
        outs = [out for out in outs if out is not None]
        before = [out.clone() for out in outs]
        work = original(*words, **kwargs)
        kept = [out.clone() for out in outs]
        olds = last[0] if last and len(last[0]) == len(outs) else [None] * len(outs)
        for out, was, old in zip(outs, before, olds, strict=True):
            fault.get(out, was, old)
        last[:] = [kept]
        return work

    return call


def ddp(fault: Fault, rank: int) -> Any:
    original = nn.parallel.DistributedDataParallel
    seen: dict[int, int] = {}
    last: dict[int, Any] = {}

    def hook(state, bucket):  # type: ignore[no-untyped-def]  # DDP reads the annotations
        number = bucket.index()
        step = seen[number] = seen.get(number, -1) + 1
        buffer = bucket.buffer()
        hit = rank == fault.rank and number == fault.bucket and step == fault.step
        if hit and fault.side == "given":
            buffer.copy_(fault.give(buffer))
        before = buffer.clone()
        work = dist.all_reduce(buffer.div_(dist.get_world_size()), async_op=True).get_future()

        def finish(future: Any) -> Any:
            value = future.value()[0]
            kept = value.clone()
            if hit and fault.side == "got":
                fault.get(value, before, last.get(number))
            last[number] = kept
            return value

        return work.then(finish)

    def make(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        made.register_comm_hook(None, hook)
        return made

    return make


def sharded(fault: Fault, rank: int) -> Any:
    import torch.distributed.fsdp as fsdp
    from torch.distributed.fsdp._fully_shard import _fsdp_collectives as calls

    original = fsdp.fully_shard
    base: Any = calls.DefaultAllGather if fault.kind == "gather" else calls.DefaultReduceScatter
    units: list[Any] = []

    class Mutant(base):  # type: ignore[misc]
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number, self.calls, self.last = number, -1, None

        def __call__(self, output_tensor: Any, input_tensor: Any, *args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            many = STEPS if fault.kind == "scatter" else 2 * STEPS
            hit = rank == fault.rank and self.number == fault.bucket
            hit = hit and self.calls == min(fault.step * (many // STEPS), many - 1)
            if hit and fault.side == "given":
                input_tensor.copy_(fault.give(input_tensor))
            before = input_tensor.chunk(dist.get_world_size())[rank].clone()
            if fault.kind == "gather":
                before = torch.zeros_like(output_tensor)
            kwargs["async_op"] = False
            super().__call__(output_tensor, input_tensor, *args, **kwargs)
            kept = output_tensor.clone()
            if hit and fault.side == "got":
                fault.get(output_tensor, before[: output_tensor.numel()], self.last)
            self.last = kept
            return None

    def make(module: Any, **kwargs: Any) -> Any:
        made = original(module, **kwargs)
        mutant = Mutant(len(units))
        units.append(mutant)
        if fault.kind == "gather":
            made.set_custom_all_gather(mutant)
        else:
            made.set_custom_reduce_scatter(mutant)
        return made

    return make


def examined(bench: Bench, fault: Fault) -> Row:
    """The row of the check that is about the site."""
    if fault.kind == "collective":
        about = {"form": fault.form, "dtype": "float32"}
        if fault.form in ("all_reduce", "reduce", "reduce_scatter_tensor"):
            about["op"] = "SUM"
        return matrix.case(bench, about, (256, 256, 256), (), 4321)
    return wrapped._ddp(bench) if fault.kind == "ddp" else wrapped._fsdp2(bench)


def tried(bench: Bench, number: int, fault: Fault) -> Row:
    begun = time.perf_counter()
    with planted(fault, bench.rank):
        try:
            row = examined(bench, fault)
        except Exception as error:
            row = {"state": "error", "detail": f"{type(error).__name__}: {error}"[:200]}
            print(f"{fault.name()}: {row['detail']}", file=sys.stderr, flush=True)
    each = [json.loads(t) for t in bench.tell_all(f"mutant/{number}", json.dumps(row, default=str))]
    wrong = [r for r, told in enumerate(each) if told["state"] == "wrong"]
    words = " ".join(f"{told.get('why', '')} {told.get('detail', '')}" for told in each)
    return {
        "name": fault.name(),
        "operator": fault.op,
        "kind": fault.kind,
        "side": fault.side,
        "reached": any(bench.tell_all(f"hit/{number}", "1" if fault.hit else "")),
        "found": bool(wrong),
        "tells": not (fault.op == "flip" and fault.side == "given" and fault.sums()),
        "named": wrong == [fault.rank] or f"rank {fault.rank}" in words,
        "why": next(
            (
                told.get("why") or told.get("detail", "")
                for told in each
                if told["state"] == "wrong"
            ),
            "",
        ),
        "seconds": time.perf_counter() - begun,
    }


def clean(bench: Bench, number: int, drawn: random.Random) -> Row:
    """One run without a fault; every wrong row in it is a false alarm."""
    bench.seed = drawn.randrange(1 << 20)
    options = bench.options
    every = [
        *(s for s in matrix.steps("full", bench.world, {}) if s.about.get("layout") != "strided"),
        *(s for s in wrapped.steps("full", bench.world, options) if "beyond" not in s.name),
        *(s for s in training.steps("full")),
        *(s for s in more.steps("quick", options) if s.phase in ("concurrency", "replay")),
    ]
    chosen = [step for step in drawn.sample(every, 24) if not step.group]
    chosen.append(drawn.choice([s for s in every if s.phase in ("ddp", "fsdp", "training")]))
    alarms = []
    for k, step in enumerate(chosen):
        try:
            row = step.run(bench)
        except Exception as error:
            row = {"state": "unsupported", "detail": str(error)}
            afterwards.left(bench, f"clean/{number}/{k}", ())
        states = bench.tell_all(f"clean/{number}/{k}", row["state"])
        if "wrong" in states:
            alarms.append(f"{step.phase} {step.name}: {row.get('detail', '')}")
    return {"steps": len(chosen), "alarms": alarms}


def main(out: str, seed: int, count: int, runs: int) -> None:
    torch.set_num_threads(1)
    backend = os.environ.get("BACKEND", "gloo")
    device: Any = "cpu"
    if backend != "gloo":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group(backend, timeout=timedelta(seconds=60))
    store = dist.PrefixStore("bank", dist.distributed_c10d._get_default_store())
    rank, world = dist.get_rank(), dist.get_world_size()
    options = {"device": str(device).partition(":")[0], "backend": backend, "timeout": 60}
    bench = Bench(torch, device, rank, world, backend, "quick", store, 1, options, {(): None})
    drawn = random.Random(seed)
    mutants: list[Row] = []
    number = 0
    while len(mutants) < count and number < 2 * count:
        row = tried(bench, number, Fault(drawn, world))
        number += 1
        if row["reached"]:  # else there is no such bucket, and nothing was changed
            mutants.append(row)
    drawn = random.Random(seed + 1)
    cleans = [clean(bench, number, drawn) for number in range(runs)]
    if rank == 0:
        with open(out, "w") as file:
            json.dump({"world": world, "seed": seed, "mutants": mutants, "clean": cleans}, file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
