"""The bars of the precision contract.

1. A fault in every matmul and convolution module, each alone, in a model with fresh random weights;
   one training step under bf16 autocast is examined and judged. The healthy twin of each model has
   to be silent.
2. Real models (ResNet-50, ViT-B, LLaMA, a diffusion UNet) against counts made by other means.
3. The CUDA policy replayed: what it predicts for them, and its check by replaying the CPU's own.
4. Faults that are flags, kernel names, the attention gate: scripts of their own.
5. What an examined step costs.

Prints tables in Markdown. Several parts run side by side, each in a process of its own; no bar of
theirs is a time. The cost comes last, alone.

    python scripts/verify/precision.py [--seed N] [--models mlp,cnn] [--parts faults,counts]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

import precision_counts
import precision_faults
import precision_flags
import precision_real
import precision_replay
from precision_faults import EFFECT, FAULT_LINES, FAULTS, FOUND_BY, Outer, is_site, plant
from precision_models import MODELS

from reefwatch.core.finding import Finding, Outcome, Severity
from reefwatch.core.record import Record
from reefwatch.gather.precision.examine import examine
from reefwatch.judge.engine import judge, load

HERE = Path(__file__).parent
LAST_LINE = "Bars missed: "
FOUND, LOCATED, MUTANTS = 0.97, 0.92, 300
LAST = ("out", "head", "leave", "lm_head")
"""Modules whose result goes into the loss alone, where an upcast is what a loss wants."""
PARTS = ("faults", "flags", "counts", "replay", "names", "gates", "cost")
SCRIPTS = {"names": "precision_names.py", "gates": "precision_gates.py"}


@dataclass
class Tally:
    """One cell of the matrix."""

    sites: int = 0
    idle: int = 0
    examined: int = 0
    unseen_found: int = 0
    unseen_line: int = 0
    found: int = 0
    module: int = 0
    line: int = 0
    elsewhere: int = 0
    missed: list[str] = field(default_factory=list)


def judged(name: str, site: str = "", fault: str = "") -> tuple[dict[str, Outcome], Record]:
    """Outcomes of one step of a fresh model, with one fault planted or none."""
    net, inputs, loss_of = MODELS[name]()
    EFFECT["now"] = fault not in FOUND_BY  # those tell by themselves
    if site:
        plant(net.get_submodule(site), FAULTS[fault])
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)

    def step() -> None:
        optimizer.zero_grad()
        Outer.now = torch.autocast("cpu", torch.bfloat16)
        with Outer.now:
            loss = loss_of(net(*inputs))
        loss.backward()
        optimizer.step()

    record = examine(step, optimizers=[optimizer], claim="bf16-mixed")
    checks = [check for check in load() if check.contract == "precision"]
    return {outcome.code: outcome for outcome in judge([record], checks)[0]}, record


def sites_of(name: str) -> list[str]:
    net = MODELS[name]()[0]
    return [path for path, module in net.named_modules() if is_site(module)]


def takes(name: str, site: str, fault: str) -> bool:
    """False when the operator has no form for that kind of module (it returns None)."""
    if fault == "result .float()":
        return site.rpartition(".")[2] not in LAST
    module = MODELS[name]()[0].get_submodule(site)
    return fault not in ("custom Function", "backward only", "out= form") or not type(
        module
    ).__name__.startswith(("Conv1d", "Conv2d", "ConvT"))


def count(tally: Tally, site: str, findings: tuple[Finding, ...], record: Record) -> None:
    if not EFFECT["now"]:
        tally.idle += 1
        return
    tally.sites += 1
    rows = [e.data for e in record.events if e.kind == "precision.op"]
    products = [row for row in rows if row["kind"] in ("matmul", "conv")]
    seen = any(row["module"] == site and row["phase"] == "forward" for row in products)
    tally.examined += seen
    ours = [f for f in findings if f.place.file in (precision_faults.__file__, "")]
    here = [finding for finding in ours if finding.place.module == site]
    if not seen:
        tally.unseen_found += bool(ours)
        tally.unseen_line += any(finding.place.line in FAULT_LINES for finding in here)
        return
    tally.found += bool(ours)
    tally.module += bool(here)
    tally.line += any(finding.place.line in FAULT_LINES for finding in here)
    tally.elsewhere += len([f for f in ours if f.place.module not in (site, "")])
    if seen and not ours:
        tally.missed.append(site)


def matrix(names: list[str]) -> tuple[dict[tuple[str, str], Tally], dict[str, list[str]]]:
    """(tallies by model and fault, findings of the healthy twins by the checks of the faults)."""
    tallies: dict[tuple[str, str], Tally] = {}
    healthy: dict[str, list[str]] = {}
    kinds = {"PREC001", *FOUND_BY.values()}
    for name in names:
        print(f"faults: {name}", file=sys.stderr)
        healthy[name] = [
            f"{outcome.code} {outcome.severity.name.lower()}: {finding.message} "
            f"({finding.place.module}, line {finding.place.line})"
            for outcome in judged(name)[0].values()
            for finding in outcome.findings
            if outcome.severity > Severity.NOTE or outcome.code in kinds
        ]
        for fault in FAULTS:
            tally = tallies[name, fault] = Tally()
            for site in sites_of(name):
                if takes(name, site, fault):
                    outcomes, record = judged(name, site, fault)
                    code = FOUND_BY.get(fault, "PREC001")
                    count(tally, site, outcomes[code].findings, record)
    return tallies, healthy


def faults(names: list[str]) -> tuple[str, list[str]]:
    """The section of the page, and the bars that were missed."""
    tallies, healthy = matrix(names)
    head = (
        "fault|mutants|no effect there|examined|found|right module|right line|"
        "not examined, found|of these with their line"
    )
    head = head.split("|")
    rows = []
    for fault in FAULTS:
        cells = [tally for (_, kind), tally in tallies.items() if kind == fault]
        rows.append([fault, *(str(n) for n in _sums(cells))])
    whole = list(tallies.values())
    rows.append(["all", *(str(n) for n in _sums(whole))])
    mutants, _, examined, found, _, line, beside, placed = _sums(whole)
    by_model = [
        [name, *(str(n) for n in _sums([t for (m, _), t in tallies.items() if m == name]))]
        for name in names
    ]
    missed = []
    if mutants < MUTANTS and len(names) >= 6:
        missed.append(f"{mutants} mutants")
    if found < FOUND * examined:
        missed.append(f"{found} of {examined} examined were found")
    if line < LOCATED * examined:
        missed.append(f"{line} of {examined} examined were located to the line")
    # what a twin says at note level of its own promotions is true of it: told, not counted
    wrong = [f"{name}: {line}" for name, said in healthy.items() for line in said]
    false = [line for line in wrong if "PREC006 note" not in line]
    missed += [f"twin {line}" for line in false]
    lost = [f"{n} {f}: {', '.join(t.missed)}" for (n, f), t in tallies.items() if t.missed]
    text = "\n".join(
        [
            "## Faults\n",
            "Each operator is applied alone at every matmul and convolution module of each model, "
            "with fresh random weights; one training step is examined.\n",
            precision_counts.table(head, rows),
            "",
            precision_counts.table(["model", *head[1:]], by_model),
            f"\nOf the {mutants} mutants the forward product of the faulty module was examined in "
            f"{examined / max(1, mutants):.1%}; of these {found / max(1, examined):.1%} were found "
            f"and {line / max(1, examined):.1%} located to the line. What another thread runs is "
            f"not examined; {beside} of the {mutants - examined} others were found by their "
            f"backward, {placed} of them with the module and the line that took their result.",
            "\nHealthy twins, findings of these kinds:\n",
            *(f"- {name}: {'; '.join(said) if said else 'none'}" for name, said in healthy.items()),
            "\nExamined and missed: " + ("; ".join(lost) if lost else "none"),
            "\nTF32 and fp16 accumulation are flags: see below.\n",
        ]
    )
    return text, missed


def _sums(cells: list[Tally]) -> tuple[int, ...]:
    names = ("sites", "idle", "examined", "found", "module", "line", "unseen_found")
    names += ("unseen_line",)
    return tuple(sum(getattr(cell, name) for cell in cells) for name in names)


def cost() -> tuple[str, list[str]]:
    """What an examined step costs, from the benchmark, which alternates it with plain ones."""
    script = HERE.parents[1] / "benchmarks" / "exam_step.py"
    done = subprocess.run(
        [sys.executable, str(script), "--rounds", "15", "--empty"],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    missed = [] if done.returncode == 0 else ["benchmarks/exam_step.py failed"]
    return f"## What an examined step costs\n\n```text\n{done.stdout.strip()}\n```\n", missed


def own(script: str) -> tuple[str, list[str]]:
    """A part that is a script: its output, and a word when a bar was missed."""
    done = subprocess.run(
        [sys.executable, str(HERE / script)], stdout=subprocess.PIPE, text=True, check=False
    )
    return done.stdout, [f"{script}: see its table"] if done.returncode else []


def beside(parts: list[str], asked: argparse.Namespace) -> list[str]:
    """Run parts side by side, print them in their order; the bars that were missed."""
    begun = []
    for part in parts:
        words = ["--parts", part, "--seed", str(asked.seed), "--models", asked.models]
        command = [sys.executable, __file__, *words, "--device", asked.device]
        begun.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    missed: list[str] = []
    for part, process in zip(parts, begun, strict=True):
        text = process.communicate()[0].strip()
        body, _, last = text.rpartition("\n")
        if not last.startswith(LAST_LINE):
            body, last = text, f"{LAST_LINE}{part} failed"
        print(body.partition("\n")[2].strip() + "\n", flush=True)
        missed += [said for said in last.removeprefix(LAST_LINE).split("; ") if said != "none"]
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--device", default="cpu", help="of the counts")
    asked = parser.parse_args()
    torch.manual_seed(asked.seed)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, CPU, one thread, seed {asked.seed}.\n")
    missed: list[str] = []
    parts = asked.parts.split(",")
    if len(parts) > 1:
        missed += beside([part for part in parts if part != "cost"], asked)
        parts = [part for part in parts if part == "cost"]
    for part in parts:
        began = time.monotonic()
        if part == "faults":
            text, wrong = faults(asked.models.split(","))
        elif part == "counts":
            full = asked.device != "cpu"
            text, wrong = precision_counts.counts(list(precision_real.REAL), asked.device, full)
            text = f"## Real models\n\n{text}"
            if precision_real.LEFT_OUT:
                wrong.append(f"{' and '.join(precision_real.LEFT_OUT)} not installed")
        elif part == "replay":
            text, wrong = precision_replay.replay(list(precision_real.REAL))
        elif part == "flags":
            text, wrong = precision_flags.flags(asked.device)
        elif part in SCRIPTS:
            text, wrong = own(SCRIPTS[part])
        else:
            text, wrong = cost()
        print(text, flush=True)
        print(f"{part}: {time.monotonic() - began:.0f} s", file=sys.stderr)
        missed += wrong
    print(LAST_LINE + ("; ".join(missed) if missed else "none"))
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
