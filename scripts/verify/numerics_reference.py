"""Faults of the model, the loop and the optimizer at every site, against a recorded reference.

Each fault is run against a reference of the healthy program on the same machine, the clean twins
too: the same program again, another seed, and another thread count.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from numerics_faults import DTYPES, MODELS
from numerics_jobs import each
from numerics_models import MODELS as EVERY
from torch import nn

import reefwatch
from reefwatch.api import references
from reefwatch.store.bundle import Bundle

STEPS = 5
EXAM = 60.0


class Program:
    """A training loop with the places where a fault can be put."""

    def __init__(
        self, name: str, dtype: str, seed: int = 0, device: str = "cpu", steps: int = STEPS
    ) -> None:
        torch.manual_seed(seed)
        self.device = device
        self.model, self.dtype = EVERY[name](), DTYPES[dtype]
        batches = [self.model.batch() for _ in range(steps)]
        self.model.to(device)
        self.batches = [tuple(part.to(device) for part in batch) for batch in batches]
        self.settings: dict[str, Any] = {"lr": 1e-2, "momentum": 0.9, "weight_decay": 1e-2}
        self.before_update: Callable[[], None] = lambda: None
        self.after_update: Callable[[], None] = lambda: None
        self.clear = True
        self.hooks: list[Any] = []

    def run(self) -> None:
        self.optimizer = torch.optim.SGD(
            [p for p in self.model.parameters() if p.requires_grad], **self.settings
        )
        low = self.dtype != torch.float32
        for x, y in self.batches:
            if self.clear:
                self.optimizer.zero_grad()
            with torch.autocast(self.device, dtype=self.dtype) if low else nullcontext():
                loss = self.model(x, y)
            loss.backward()
            self.before_update()
            self.optimizer.step()
            self.after_update()


@dataclass(frozen=True)
class Fault:
    kind: str
    site: str
    """The parameter or module it is put at; empty for the loop or the optimizer."""
    put: Callable[[Program], None]


def faults(name: str, dtype: str) -> Iterator[Fault]:
    """Every fault that has a site in this model."""
    model = Program(name, dtype).model
    params = dict(model.named_parameters())
    for site in params:
        yield Fault("half gradient", site, lambda p, site=site: _hook(p, site))
        yield Fault("frozen", site, lambda p, site=site: _param(p, site).requires_grad_(False))
        yield Fault("wrong initialisation", site, lambda p, site=site: _scaled(p, site))
        yield Fault("update lost", site, lambda p, site=site: _lost(p, site))
    for site, module in model.named_modules():
        if not list(module.children()) and site:
            yield Fault("one channel 1 % off", site, lambda p, site=site: _channel(p, site))
        if isinstance(module, (nn.LayerNorm, nn.BatchNorm2d, nn.GroupNorm)):
            yield Fault("eps x 1000", site, lambda p, site=site: _eps(p, site))
        if isinstance(module, (nn.ReLU, nn.SiLU)):
            yield Fault("another activation", site, lambda p, site=site: _activation(p, site))
    yield Fault("momentum", "", lambda p: p.settings.update(momentum=0.8))
    yield Fault("decay", "", lambda p: p.settings.update(weight_decay=0.1))
    yield Fault("learning rate 1 % off", "", lambda p: p.settings.update(lr=1.01e-2))
    yield Fault("nesterov", "", lambda p: p.settings.update(nesterov=True))
    yield Fault("labels shifted", "", lambda p: _labels(p, lambda y: y.roll(1, 0)))
    yield Fault("one label wrong", "", lambda p: _labels(p, _one_label))
    yield Fault("gradients not cleared", "", lambda p: setattr(p, "clear", False))
    yield Fault("clipped", "", lambda p: setattr(p, "before_update", lambda: _clip(p)))


def _param(p: Program, site: str) -> Any:
    return p.model.get_parameter(site)


def _hook(p: Program, site: str) -> None:
    _param(p, site).register_hook(lambda g: g * 0.5)


def _scaled(p: Program, site: str) -> None:
    with torch.no_grad():
        kept = _param(p, site)
        kept.mul_(1.02).add_(0.001)


def _lost(p: Program, site: str) -> None:
    kept = _param(p, site)
    before: list[Any] = []
    p.before_update = lambda: before.append(kept.detach().clone())
    p.after_update = lambda: kept.data.copy_(before[-1])


def _channel(p: Program, site: str) -> None:
    def spoil(module: Any, args: Any, out: Any) -> Any:
        if out.dim() < 2:
            return out
        axis = 1 if out.dim() == 4 else out.dim() - 1
        scale = torch.ones(out.shape[axis], dtype=out.dtype)
        scale[out.shape[axis] // 2] = 1.01
        return out * scale.view([-1 if d == axis else 1 for d in range(out.dim())])

    p.model.get_submodule(site).register_forward_hook(spoil)


def _eps(p: Program, site: str) -> None:
    p.model.get_submodule(site).eps *= 1000  # type: ignore[operator]


def _activation(p: Program, site: str) -> None:
    parent, _, leaf = site.rpartition(".")
    setattr(p.model.get_submodule(parent), leaf, nn.LeakyReLU(0.02))


def _labels(p: Program, change: Callable[[Any], Any]) -> None:
    p.batches = [(x, change(y)) for x, y in p.batches]


def _one_label(y: Any) -> Any:
    made = y.clone()
    flat = made.reshape(-1)
    flat[0] = (flat[0] + 1) % 4 if not y.is_floating_point() else flat[0] + 0.5
    return made


def _clip(p: Program) -> None:
    torch.nn.utils.clip_grad_norm_(p.model.parameters(), 0.1)


def watched(program: Program, folder: Path, noise: int = 0, **asked: Any) -> Any:
    """The report of a watched run."""
    with tempfile.TemporaryDirectory() as out, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        watch = reefwatch.watch(exam=EXAM, budget=0, out=out, **asked)
        watch._settings = replace(watch._settings, noise=noise)
        with watch:
            program.run()
    return watch.report


def record(name: str, dtype: str, place: Path, perturbed: int, device: str = "cpu") -> None:
    """A reference with its noise, as `--record --perturb` makes it."""
    watched(Program(name, dtype, device=device), place, record=place)
    found: dict[str, list[Bundle]] = {references.RERUN: [], "noise": []}
    for seed in range(perturbed + 1):
        folder = place.with_name(f"{place.name}.noise{seed}")
        watched(Program(name, dtype, device=device), folder, noise=seed, record=folder)
        found["noise" if seed else references.RERUN].append(Bundle(folder))
    references._keep(place, found)


def told(report: Any) -> list[tuple[str, str, str]]:
    """(code, module, op) of each finding at error level."""
    return [
        (outcome.code, finding.place.module, finding.place.op)
        for outcome in report.outcomes
        if outcome.severity >= 2
        for finding in outcome.findings
    ]


def located(fault: Fault, found: list[tuple[str, str, str]]) -> bool:
    """True when a finding names the module or parameter, or for the loop the right rule."""
    if fault.site:
        owner = fault.site if "channel" in fault.kind else fault.site.rpartition(".")[0]
        if fault.kind in ("eps x 1000", "another activation"):
            owner = fault.site
        names = {fault.site, owner, fault.site.rpartition(".")[0]} - {""}
        return any(module in names for _, module, _ in found) or (
            fault.kind == "wrong initialisation" and any(code == "REF006" for code, *_ in found)
        )
    right = {
        "labels shifted": {"REF006"},
        "one label wrong": {"REF006"},
        "gradients not cleared": {"LOOP001", "REF003", "REF004"},
        "clipped": {"REF001", "REF003", "REF004"},
    }.get(fault.kind, {"REF001", "REF004"})
    return any(code in right for code, *_ in found)


def _healthy(job: tuple[Path, str, str]) -> dict[str, Any]:
    """What is found in healthy runs of one model against its reference, which is recorded here."""
    scratch, name, dtype = job
    torch.set_num_threads(1)
    place = scratch / f"{name}-{dtype}"
    record(name, dtype, place, 2)
    clean = {}
    for what, seed, threads in (("again", 0, 1), ("another seed", 9, 1), ("2 threads", 0, 2)):
        torch.set_num_threads(threads)
        found = told(watched(Program(name, dtype, seed), place, against=place))
        torch.set_num_threads(1)
        clean[f"{name} {dtype} {what}"] = found
        print(name, dtype, what, found, file=sys.stderr)
    return clean


def _faulty(job: tuple[Path, str, str, int]) -> tuple[Fault, list[Any], bool]:
    """(the fault, without its action; what was found; whether it was located)."""
    scratch, name, dtype, number = job
    torch.set_num_threads(1)
    fault = next(itertools.islice(faults(name, dtype), number, None))
    program = Program(name, dtype)
    fault.put(program)
    found = told(watched(program, scratch, against=scratch / f"{name}-{dtype}"))
    return replace(fault, put=print), found, located(fault, found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--most", type=int, default=160)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--dtypes", nargs="+", default=["fp32", "bf16"])
    given = parser.parse_args()
    torch.set_num_threads(1)
    began = time.perf_counter()
    scratch = Path(tempfile.mkdtemp())
    kinds = [(scratch, name, dtype) for name in given.models for dtype in given.dtypes]
    clean = {}
    for told_of in each(_healthy, kinds):
        clean.update(told_of)
    every = [
        (scratch, name, dtype, number)
        for _, name, dtype in kinds
        for number, _ in enumerate(faults(name, dtype))
    ]
    random.Random(given.seed).shuffle(every)
    table: dict[str, Counter[str]] = {}
    missed = []
    jobs = every[: given.most]
    for number, ((_, name, dtype, _), (fault, found, right)) in enumerate(
        zip(jobs, each(_faulty, jobs), strict=True)
    ):
        row = table.setdefault(fault.kind, Counter())
        row["seeded"] += 1
        row["found"] += bool(found)
        row["located"] += right
        if not right:
            missed.append(f"{fault.kind} at {fault.site or 'the loop'}, {name} {dtype}: {found}")
        if number % 20 == 19:
            print(number + 1, file=sys.stderr)
    print(f"Seed {given.seed}; {time.perf_counter() - began:.0f} s; {len(every)} sites.\n")
    print("| fault | seeded | found | located |\n| --- | --- | --- | --- |")
    total: Counter[str] = Counter()
    for kind, row in sorted(table.items()):
        total += row
        print(f"| {kind} | {row['seeded']} | {row['found']} | {row['located']} |")
    print(f"| all | {total['seeded']} | {total['found']} | {total['located']} |\n")
    for line in missed:
        print(f"- not located: {line}")
    for name, found in clean.items():
        print(f"- clean {name}: {len(found)} findings {found or ''}")
    ok = total["found"] >= 0.97 * total["seeded"] and total["located"] >= 0.9 * total["seeded"]
    raise SystemExit(0 if ok and not any(clean.values()) else 1)


if __name__ == "__main__":
    main()
