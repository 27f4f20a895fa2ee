"""Kernels made wrong below the watcher, at every op of a model, and what the truth says of them.

A fault replaces the CPU kernel of one op by one that calls it and spoils what it gave, wherever it
gives this shape, in every step. The clean twin is the same step without.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from numerics_jobs import each
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import reefwatch

SKIP = {
    "detach",
    "view",
    "t",
    "transpose",
    "_unsafe_view",
    "expand",
    "alias",
    "empty",
    "zeros",
    "ones",
}
"""Never spoiled: views and tensors made from nothing."""


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 24, 3, stride=2, padding=1),
            nn.GroupNorm(4, 24),
            nn.SiLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(24 * 16, 10),
        )

    def forward(self, x: Any, y: Any) -> Any:
        return F.cross_entropy(self.net(x), y)

    def batch(self) -> Any:
        return torch.randn(8, 3, 16, 16), torch.randint(0, 10, (8,))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(64, 32), nn.Embedding(16, 32)
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(3))
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.up, self.down, self.head = nn.Linear(32, 64), nn.Linear(64, 32), nn.Linear(32, 64)

    def forward(self, x: Any, y: Any) -> Any:
        h = self.words(x) + self.places(torch.arange(16, device=x.device))
        q, k, v = self.qkv(self.norms[0](h)).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.out(a.transpose(1, 2).flatten(2))
        h = h + self.down(F.gelu(self.up(self.norms[1](h))))
        return F.cross_entropy(self.head(self.norms[2](h)).flatten(0, 1), y.flatten())

    def batch(self) -> Any:
        return torch.randint(0, 64, (4, 16)), torch.randint(0, 64, (4, 16))


class Rnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(12, 24), nn.Linear(24, 6)

    def forward(self, x: Any, y: Any) -> Any:
        h = x.new_zeros(x.shape[0], 24)
        told = []
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            told.append(torch.tanh(h))
        return F.mse_loss(self.head(torch.stack(told, 1)).float(), y)

    def batch(self) -> Any:
        return torch.randn(8, 5, 12), torch.randn(8, 5, 6)


MODELS: dict[str, Callable[[], Any]] = {"cnn": Cnn, "transformer": Transformer, "rnn": Rnn}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Step:
    """One model with its optimizer and batch, the same for the same seed."""

    def __init__(self, name: str, dtype: str, seed: int) -> None:
        torch.manual_seed(seed)
        self.model, self.dtype = MODELS[name](), DTYPES[dtype]
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-3)
        self.batch = self.model.batch()

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        low = self.dtype != torch.float32
        with torch.autocast("cpu", dtype=self.dtype if low else None, enabled=low):
            loss = self.model(*self.batch)
        loss.backward()
        self.optimizer.step()


# -- spoiling what a kernel gave --------------------------------------------------------------


def one_channel(t: Any, r: random.Random) -> None:
    """One slice of one axis 1 % off."""
    axis = max(range(t.dim()), key=lambda d: (t.shape[d] > 1, d == 1, d))
    part = t.select(axis, r.randrange(t.shape[axis]))
    part.copy_((part.double() * 1.01).to(t.dtype))


def swapped(t: Any, r: random.Random) -> None:
    """Two slices of an axis (heads, channels, rows) exchanged."""
    axis = r.choice([d for d in range(t.dim()) if t.shape[d] > 1])
    a, b = r.sample(range(t.shape[axis]), 2)
    t.copy_(t.index_select(axis, _exchange(t.shape[axis], a, b)))


def _exchange(count: int, a: int, b: int) -> Any:
    order = list(range(count))
    order[a], order[b] = b, a
    return torch.tensor(order)


def tile_bit(t: Any, r: random.Random) -> None:
    """A bit of the significand flipped in a tile of the last axis."""
    flat = t.reshape(-1) if t.is_contiguous() else t.contiguous().reshape(-1)
    start = r.randrange(flat.numel())
    tile = flat[start : start + 16]
    kind = {8: torch.int64, 4: torch.int32, 2: torch.int16}[t.element_size()]
    bit = {torch.float64: 49, torch.float32: 19, torch.bfloat16: 4, torch.float16: 7}[t.dtype]
    made = flat.clone()
    made[start : start + 16] = (tile.view(kind) ^ (1 << bit)).view(t.dtype)
    t.copy_(made.view(t.shape))


def shifted(t: Any, r: random.Random) -> None:
    """All elements one place further."""
    t.copy_(t.reshape(-1).roll(1).view(t.shape))


def tail(t: Any, r: random.Random) -> None:
    """The last elements, which fill no whole vector, never written: zeros."""
    count = max(1, min(t.numel() // 4, 3))
    made = t.contiguous().reshape(-1).clone()
    made[-count:] = 0
    t.copy_(made.view(t.shape))


def factor(t: Any, r: random.Random) -> None:
    """Everything 0.5 % too large: a bias of the variance, a scale."""
    t.copy_(
        (t.double() * 1.005 if t.dtype in (torch.float32, torch.float64) else t.double() * 1.02).to(
            t.dtype
        )
    )


def offset(t: Any, r: random.Random) -> None:
    """A small constant on everything: a wrong eps, a wrong zero point."""
    size = float(t.double().abs().mean()) or 1.0
    t.copy_((t.double() + size * (1e-3 if t.dtype == torch.float32 else 3e-2)).to(t.dtype))


def coarse(t: Any, r: random.Random) -> None:
    """Computed with fewer bits than the dtype has (fp16 accumulation, fp8 inside)."""
    narrow = torch.float16 if t.dtype == torch.float32 else torch.float8_e4m3fn
    t.copy_(t.to(narrow).to(t.dtype))


class Stale:
    """A buffer of the call before given again."""

    def __init__(self) -> None:
        self.last: Any = None

    def __call__(self, t: Any, r: random.Random) -> None:
        now = t.clone()
        t.copy_(
            self.last
            if self.last is not None and self.last.shape == t.shape
            else torch.zeros_like(t)
        )
        self.last = now


KINDS: dict[str, Callable[[], Callable[[Any, random.Random], None]]] = {
    "one channel 1 % off": lambda: one_channel,
    "slices swapped": lambda: swapped,
    "bit flipped in a tile": lambda: tile_bit,
    "shifted by one": lambda: shifted,
    "tail lost": lambda: tail,
    "factor": lambda: factor,
    "offset": lambda: offset,
    "too few bits": lambda: coarse,
    "stale buffer": Stale,
}


@dataclass(frozen=True)
class Site:
    """One op of a step: its name, how many outputs can be spoiled, and an output's shape."""

    op: str
    output: int
    shape: tuple[int, ...]
    calls: int


class Sites(TorchDispatchMode):
    """Finds every op of a step whose output can be spoiled."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[tuple[str, int, tuple[int, ...]]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        bare = func._schema.name.partition("::")[2]
        views = any(a.alias_info is not None for a in func._schema.arguments)
        if func.namespace == "aten" and bare not in SKIP and not views:
            outs = (
                [out]
                if isinstance(out, torch.Tensor)
                else out
                if isinstance(out, (list, tuple))
                else ()
            )
            for place, one in enumerate(outs):
                if isinstance(one, torch.Tensor) and one.is_floating_point() and one.numel() >= 8:
                    self.found[str(func), place, tuple(one.shape)] += 1
        return out


def sites(step: Step) -> list[Site]:
    step()
    with Sites() as mode:
        step()
    return [Site(*key, calls) for key, calls in sorted(mode.found.items())]


class Fault:
    """The kernel of one op replaced; what it gives of one shape is spoiled."""

    def __init__(self, site: Site, kind: str, seed: int, key: str = "CPU") -> None:
        self.site, self.kind, self.random = site, kind, random.Random(seed)
        self.key = key
        self.spoil = KINDS[kind]()
        self.busy = self.changed = False
        """`changed`: true when any call gave something else for it."""

    def __enter__(self) -> Fault:
        _, name, overload = self.site.op.split(".")
        func = getattr(getattr(torch.ops.aten, name), overload)
        self.kernel = torch.library.get_kernel(func, self.key)
        self.library = torch.library.Library("aten", "IMPL")
        keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, self.key))
        state = self.random.getstate()

        def wrong(*args: Any, **kwargs: Any) -> Any:
            out = self.kernel.call_boxed(keys, *args, **kwargs)
            if self.busy:  # spoiling calls ops too
                return out
            outs = [out] if isinstance(out, torch.Tensor) else list(out)
            one = outs[self.site.output]
            floats = isinstance(one, torch.Tensor) and one.is_floating_point()
            if floats and tuple(one.shape) == self.site.shape:
                self.busy = True
                before = one.clone()
                self.random.setstate(state)
                self.spoil(one, self.random)
                self.changed |= not torch.equal(before, one)
                self.busy = False
            return out

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            entry = f"{name}.{overload}" if overload != "default" else name
            self.library.impl(entry, wrong, self.key)
        return self

    def __exit__(self, *error: Any) -> None:
        self.library._destroy()


def watched(step: Step, steps: int = 3) -> list[str]:
    """Ops that a watched run of the step says are wrong."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        watch = reefwatch.watch(exam=60, budget=0, truth=True, out=folder)
        with watch:
            for _ in range(steps):
                step()
        found = [
            finding.place.op
            for outcome in watch.report.outcomes
            if outcome.code.startswith("NUM")
            for finding in outcome.findings
        ]
        errored = [name for name in watch.report.records[0].facts if name.startswith("errored")]
        if errored:
            raise RuntimeError(f"an instrument failed: {watch.report.records[0].facts[errored[0]]}")
    return found


def bank(
    seed: int, most: int, models: list[str], dtypes: list[str]
) -> Iterator[tuple[str, str, Site, str, int]]:
    """(model, dtype, site, kind, seed) over all sites, drawn to `most` of them."""
    chosen = random.Random(seed)
    every = [
        (model, dtype, site, kind, chosen.randrange(1 << 30))
        for model in models
        for dtype in dtypes
        for site in sites(Step(model, dtype, seed))
        for kind in KINDS
    ]
    chosen.shuffle(every)
    yield from every[:most]


def _healthy(job: tuple[str, str, int]) -> list[str]:
    torch.set_num_threads(1)
    return watched(Step(*job), 4)


def _faulty(job: tuple[int, str, str, Site, str, int]) -> tuple[list[str] | None, bool]:
    """(ops found wrong, whether the fault changed anything); None when it cannot be put there."""
    first, model, dtype, site, kind, seed = job
    torch.set_num_threads(1)
    step = Step(model, dtype, first)
    step()
    try:
        with Fault(site, kind, seed) as fault:
            found = watched(step)
    except RuntimeError as error:  # a kernel that cannot be called from Python with its arguments
        print(f"not seeded: {site.op}: {str(error).splitlines()[0]}", file=sys.stderr)
        return None, False
    return found, fault.changed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--most", type=int, default=400)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--dtypes", nargs="+", default=list(DTYPES))
    given = parser.parse_args()
    torch.set_num_threads(1)
    began = time.perf_counter()
    table: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    kinds = [(model, dtype, given.seed) for model in given.models for dtype in given.dtypes]
    clean = {
        f"{m} {d}": found for (m, d, _), found in zip(kinds, each(_healthy, kinds), strict=True)
    }
    print("clean:", clean, file=sys.stderr)
    missed = []
    jobs = [(given.seed, *one) for one in bank(given.seed, given.most, given.models, given.dtypes)]
    for number, ((_, model, dtype, site, kind, _), (found, changed)) in enumerate(
        zip(jobs, each(_faulty, jobs), strict=True)
    ):
        row = table[kind]
        if found is None:
            row["no seed"] += 1
            continue
        row["seeded"] += 1
        if not changed:
            row["no change"] += 1
        elif site.op in found:
            row["found"] += 1
            row["named"] += 1
        elif found:
            row["found"] += 1
            missed.append((model, dtype, site, kind, f"named {found}"))
        else:
            missed.append((model, dtype, site, kind, "missed"))
        if number % 20 == 19:
            print(number + 1, sum(t["found"] for t in table.values()), file=sys.stderr)
    print(f"Seed {given.seed}; {time.perf_counter() - began:.0f} s.\n")
    print(
        "| fault | seeded | changed nothing | found | op named |\n| --- | --- | --- | --- | --- |"
    )
    total: Counter[str] = Counter()
    for kind, row in table.items():
        total += row
        live = row["seeded"] - row["no change"]
        print(
            f"| {kind} | {row['seeded']} | {row['no change']} | {row['found']} of {live} "
            f"| {row['named']} of {live} |"
        )
    live = total["seeded"] - total["no change"]
    print(
        f"| all | {total['seeded']} | {total['no change']} | {total['found']} of {live} "
        f"| {total['named']} of {live} |\n"
    )
    for model, dtype, site, kind, what in missed:
        print(
            f"- {what}: {kind} in {site.op} output {site.output} {list(site.shape)}, "
            f"{model} {dtype}"
        )
    print()
    for name, found in clean.items():
        print(f"- clean {name}: {len(found)} findings {found or ''}")
    ok = total["found"] >= 0.95 * live and total["named"] >= 0.9 * live and not any(clean.values())
    raise SystemExit(0 if ok else 1)


if __name__ == "__main__":
    main()
