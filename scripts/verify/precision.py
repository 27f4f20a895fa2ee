"""The bars of the precision contract: a fault in every matmul and convolution module.

Each fault is planted alone, in a model with fresh random weights; one training step under
bf16 autocast is examined and judged. The healthy twin of each model has to be silent at error
level. Prints a table in Markdown.

    python scripts/verify/precision.py [--seed N] [--models mlp,cnn]
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

import precision_faults
from precision_faults import FAULT_LINES, FAULTS, is_site, plant
from precision_models import MODELS

from reefwatch.core.finding import Finding, Outcome, Severity
from reefwatch.gather.precision.examine import examine
from reefwatch.judge.engine import judge, load


@dataclass
class Tally:
    """One cell of the matrix."""

    sites: int = 0
    found: int = 0
    module: int = 0
    line: int = 0
    elsewhere: int = 0
    missed: list[str] = field(default_factory=list)


def judged(name: str, site: str = "", fault: str = "") -> dict[str, Outcome]:
    """Outcomes of one step of a fresh model, with one fault planted or none."""
    net, inputs, loss_of = MODELS[name]()
    if site:
        plant(net.get_submodule(site), FAULTS[fault])
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(net(*inputs))
        loss.backward()
        optimizer.step()

    record = examine(step, optimizers=[optimizer], claim="bf16-mixed")
    checks = [check for check in load() if check.contract == "precision"]
    return {outcome.code: outcome for outcome in judge([record], checks)[0]}


def sites_of(name: str) -> list[str]:
    net = MODELS[name]()[0]
    return [path for path, module in net.named_modules() if is_site(module)]


def takes(name: str, site: str, fault: str) -> bool:
    """False when the operator has no form for that kind of module (it returns None)."""
    module = MODELS[name]()[0].get_submodule(site)
    return fault not in ("custom Function", "backward only", "out= form") or not type(
        module
    ).__name__.startswith(("Conv1d", "Conv2d", "ConvT"))


def count(tally: Tally, site: str, findings: tuple[Finding, ...]) -> None:
    tally.sites += 1
    here = [finding for finding in findings if finding.place.module == site]
    tally.found += bool(findings)
    tally.module += bool(here)
    tally.line += any(
        finding.place.file == precision_faults.__file__ and finding.place.line in FAULT_LINES
        for finding in here
    )
    tally.elsewhere += len([f for f in findings if f.place.module not in (site, "")])
    if not findings:
        tally.missed.append(site)


def matrix(names: list[str]) -> tuple[dict[tuple[str, str], Tally], dict[str, list[str]]]:
    """(tallies by model and fault, findings at error or warning level of the healthy twins)."""
    tallies: dict[tuple[str, str], Tally] = {}
    healthy: dict[str, list[str]] = {}
    for name in names:
        healthy[name] = [
            f"{outcome.code} {outcome.severity.name.lower()}: {finding.message}"
            for outcome in judged(name).values()
            for finding in outcome.findings
            if outcome.severity > Severity.NOTE
        ]
        for fault in FAULTS:
            tally = tallies[name, fault] = Tally()
            for site in sites_of(name):
                if takes(name, site, fault):
                    count(tally, site, judged(name, site, fault)["PREC001"].findings)
    return tallies, healthy


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--models", default=",".join(MODELS))
    asked = parser.parse_args()
    torch.manual_seed(asked.seed)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    tallies, healthy = matrix(asked.models.split(","))
    print(f"torch {torch.__version__}, CPU, seed {asked.seed}, one examined step each.\n")
    print("| model | fault | sites | found | right module | right line | other modules named |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for (name, fault), tally in tallies.items():
        if tally.sites:
            print(
                f"| {name} | {fault} | {tally.sites} | {tally.found} | {tally.module} "
                f"| {tally.line} | {tally.elsewhere} |"
            )
    print("\nHealthy twins:\n")
    for name, said in healthy.items():
        print(f"- {name}: {'; '.join(said) if said else 'nothing at error or warning level'}")
    missed = [f"{n} {f}: {', '.join(t.missed)}" for (n, f), t in tallies.items() if t.missed]
    print("\nMissed: " + ("; ".join(missed) if missed else "none"))
    return 1 if missed or any("error" in line for said in healthy.values() for line in said) else 0


if __name__ == "__main__":
    raise SystemExit(main())
