"""The fault bank of the loop contract: every operator over all sites of every model.

`python scripts/verify/loop_faults.py [SEED]` prints the matrix as a markdown table, then the clean
loops. The exit code is 1 when a fault is missed, located wrongly, or a clean loop found at fault.
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from loop_clean import LOOPS
from loop_lab import STEPS, Adversarial, Classify, Fault, Poisoned, line, watched
from loop_models import MODELS, Discriminator, Generator, leaves

from reefwatch.core.finding import Finding, Outcome, Verdict

PUT_IN_ON_PURPOSE = ("aten.masked_fill.Scalar", "aten._softmax.default")
"""An Inf out of these cannot be told from a mask: it must be found, and the op named is the one
that could not bear it."""


@dataclass(frozen=True)
class Trial:
    """One faulty program, the code that must break, and whether a finding is in the right place."""

    operator: str
    model: str
    site: str
    code: str
    make: Callable[[], Callable[[], object]]
    located: Callable[[Finding], bool]


def at(mark: str) -> Callable[[Finding], bool]:
    return lambda finding: finding.place.line == line(mark)


def names(site: str) -> Callable[[Finding], bool]:
    return lambda finding: site in finding.message or site in finding.place.module


def whole_loop(model: str, seed: int) -> Iterator[Trial]:
    """Faults of the loop itself: one site each."""
    kinds: dict[str, tuple[str, Callable[[Finding], bool]]] = {
        "no zero_grad": ("LOOP001", at("step")),
        "zero_grad after backward": ("LOOP002", at("step")),
        "backward in autocast": ("LOOP008", at("inside")),
        "bf16 scaler": ("LOOP009", lambda finding: True),
        "eval in training": ("LOOP011", at("step")),
        "train in evaluation": ("LOOP012", at("evaluation")),
        "same batch": ("LOOP013", lambda f: f.place.module == MODELS[model].__name__),
    }
    for kind, (code, located) in kinds.items():
        fault = Fault(kind)
        yield Trial(kind, model, "loop", code, lambda f=fault: Classify(model, f, seed), located)


def layers(model: str, seed: int) -> Iterator[Trial]:
    """Faults of one layer, for each layer that has parameters."""
    kinds = {
        "left out of the optimizer": "LOOP003",
        "layer made anew": "LOOP003",
        "detach": "LOOP004",
        "learning rate 0": "LOOP005",
    }
    for kind, code in kinds.items():
        for site in leaves(MODELS[model]()):
            if kind == "detach" and site in ("out", "head"):
                continue  # nothing would be left to train: backward itself raises
            fault = Fault(kind, site)
            yield Trial(
                kind, model, site, code, lambda f=fault: Classify(model, f, seed), names(site)
            )


def gradients(model: str, seed: int) -> Iterator[Trial]:
    """An Inf in the gradient of each parameter."""
    for site, _ in MODELS[model]().named_parameters():
        fault = Fault("inf gradient", site)
        yield Trial(
            "inf gradient",
            model,
            site,
            "LOOP007",
            lambda f=fault: Classify(model, f, seed),
            lambda f: f.place.op == "aten.mul.Tensor",
        )


def adversarial(seed: int) -> Iterator[Trial]:
    for name in ("generator", "discriminator"):
        for kind, code in (("no zero_grad", "LOOP001"), ("zero_grad after backward", "LOOP002")):
            fault = Fault(kind, name)
            yield Trial(kind, "gan", name, code, lambda f=fault: Adversarial(f, seed), at(name))
    for name, part in (("generator", Generator()), ("discriminator", Discriminator())):
        for kind in ("left out of the optimizer", "layer made anew"):
            for path in leaves(part):
                fault = Fault(kind, f"{name}.{path}")
                yield Trial(
                    kind,
                    "gan",
                    fault.site,
                    "LOOP003",
                    lambda f=fault: Adversarial(f, seed),
                    names(path),
                )
    fault = Fault("eval in training")
    yield Trial(
        "eval in training",
        "gan",
        "loop",
        "LOOP011",
        lambda: Adversarial(fault, seed),
        lambda f: f.place.line in (line("generator"), line("discriminator")),
    )


def bank(seed: int) -> Iterator[Trial]:
    """All trials but those of single ops."""
    for model in MODELS:
        for family in (whole_loop, layers, gradients):
            yield from family(model, seed)
    yield from adversarial(seed)


def poisoned(model: str, site: int, value: float, seed: int) -> tuple[Poisoned, Outcome]:
    made: list[Poisoned] = []

    def make() -> Poisoned:
        made.append(Poisoned(model, site, value, seed))
        return made[-1]

    outcome = watched(make)["LOOP007"]
    return made[0], outcome


def try_one(trial: Trial) -> tuple[bool, bool]:
    """(found by the right check, in the right place)."""
    try:
        outcome = watched(trial.make)[trial.code]
    except RuntimeError as error:  # a fault that PyTorch itself refuses is no silent one
        raise AssertionError(f"{trial}: {error}") from error
    found = outcome.verdict is Verdict.BROKEN
    return found, found and any(trial.located(finding) for finding in outcome.findings)


def try_op(model: str, site: int, value: float, seed: int) -> tuple[bool, bool, bool]:
    """(reached loss or gradients, found if and only if it reached, blamed on the right op)."""
    program, outcome = poisoned(model, site, value, seed)
    found = outcome.verdict is Verdict.BROKEN
    right = found and outcome.findings[0].place.op == program.poison.hit
    if math.isinf(value) and program.poison.hit in PUT_IN_ON_PURPOSE:
        right = found and outcome.findings[0].place.module.startswith("blocks.")
    return program.reached, found == program.reached, right or not program.reached


def op_sites(model: str) -> int:
    probe = Poisoned(model, -1)
    probe()
    return len(probe.poison.names)


def clean() -> Iterator[tuple[str, list[str]]]:
    """Each clean loop with the findings that break something: there must be none."""
    for name, program in LOOPS.items():
        torch.manual_seed(0)
        outcomes = watched(lambda p=program: p).values()
        yield name, [f.message for o in outcomes if o.verdict is Verdict.BROKEN for f in o.findings]


def matrix(seed: int) -> tuple[list[tuple[str, ...]], list[str]]:
    """Rows (operator, model, sites, found, located) and what was missed."""
    sites: Counter[tuple[str, str]] = Counter()
    found, located = Counter(sites), Counter(sites)
    missed = []
    for trial in bank(seed):
        key = (trial.operator, trial.model)
        hit, placed = try_one(trial)
        sites[key] += 1
        found[key] += hit
        located[key] += placed
        if not placed:
            missed.append(f"{trial.operator}, {trial.model}, {trial.site}")
    for model in MODELS:
        for word, value in (("NaN", float("nan")), ("Inf", float("inf"))):
            key = (f"{word} out of one op", model)
            for site in range(op_sites(model)):
                reached, agreed, right = try_op(model, site, value, seed)
                sites[key] += reached or not agreed
                found[key] += reached and agreed
                located[key] += reached and right
                if not (agreed and right):
                    missed.append(f"{key[0]}, {model}, op {site}")
    rows = [(*key, str(n), str(found[key]), str(located[key])) for key, n in sites.items()]
    return sorted(rows), missed


def main(argv: list[str]) -> int:
    torch.set_num_threads(1)
    seed = int(argv[0]) if argv else random.SystemRandom().randrange(1 << 30)
    rows, missed = matrix(seed)
    print(f"Seed {seed}, {STEPS} steps a loop.\n")
    print("| fault | model | sites | found by the right check | and located |")
    print("| --- | --- | --- | --- | --- |")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(f"\nMissed or located wrongly: {', '.join(missed) or 'none'}.")
    at_fault = [(name, said) for name, said in clean() if said]
    print(f"\nClean loops: {len(LOOPS)}, found at fault: {len(at_fault)}.")
    for name, said in at_fault:
        print(f"- {name}: {'; '.join(said)}")
    return 1 if missed or at_fault else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
