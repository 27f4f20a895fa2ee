"""The bars of the doors for frameworks: runs are equal with and without, faults are found, and
workflow files are valid and their job without a GPU is green.

Needs `pip install 'reefwatch[frameworks]'`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("integrations_program.py")

CONFIGURATIONS = {
    "32": "",
    "bf16-mixed": "--precision bf16-mixed",
    "bf16-true": "--precision bf16-true",
    "64-true": "--precision 64-true",
    "bf16-mixed, accumulation 2, clip by norm": "--precision bf16-mixed --accumulate 2 --clip 0.1",
    "32, clip by value": "--clip 0.01 --algorithm value",
    "32, accumulation 3": "--accumulate 3",
    "32, two optimizers": "--two",
    "bf16-mixed, two optimizers": "--precision bf16-mixed --two",
    "32, DDP": "--ddp",
    "bf16-mixed, DDP, accumulation 2, clip by norm": "--precision bf16-mixed --ddp --accumulate 2"
    " --clip 0.1",
    "32, a part compiled": "--compile",
    "bf16-mixed, a part compiled, clip by norm": "--precision bf16-mixed --compile --clip 0.1",
}
FAULTS = {
    # name: (framework, arguments, code, what the finding names: module or file)
    "a silent upcast in a LightningModule": (
        "lightning",
        "--precision bf16-mixed --fault upcast",
        "PREC001",
        "head",
    ),
    "16-mixed on a CPU trains in bf16": ("lightning", "--precision 16-mixed", "PREC027", ""),
    "one replica changed by 1e-6 (Lightning)": (
        "lightning",
        "--ddp --fault replica",
        "DIST040",
        "head.weight",
    ),
    "a part compiled wrongly (Lightning)": (
        "lightning",
        "--compile --fault compile",
        "COMP001",
        "1",
    ),
    "clipping at four times the limit (Lightning)": (
        "lightning",
        "--clip 0.05 --fault clip",
        "LOOP016",
        "",
    ),
    "a silent upcast in an MLP of LLaMA": (
        "huggingface",
        "--precision bf16-mixed --fault upcast",
        "PREC001",
        "mlp.gate_proj",
    ),
    "fp16=True on a CPU trains in fp32": ("huggingface", "--precision 16-mixed", "PREC025", ""),
    "one replica changed by 1e-6 (transformers)": (
        "huggingface",
        "--ddp --fault replica",
        "DIST040",
        "q_proj.lora_B",
    ),
    "an MLP of LLaMA compiled wrongly": (
        "huggingface",
        "--compile --fault compile",
        "COMP001",
        "activations.py",
    ),
    "a LoRA adapter that never changes": (
        "huggingface",
        "--fault adapter",
        "LOOP005",
        "v_proj.lora_A",
    ),
    "clipping at four times the limit (transformers)": (
        "huggingface",
        "--clip 0.01 --fault clip",
        "LOOP016",
        "",
    ),
}


def program(framework: str, words: str, *more: str) -> list[dict[str, Any]]:
    """What each rank says. Raises RuntimeError when the program fails."""
    command = [sys.executable]
    if framework == "huggingface" and "--ddp" in words:  # Lightning starts its ranks itself
        command += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += [str(PROGRAM), framework, *words.split(), *more]
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    told = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    lines = [line for line in told.stdout.splitlines() if line.startswith('{"rank"')]
    if told.returncode or not lines:
        raise RuntimeError(
            f"{' '.join(command)} ended with {told.returncode}:\n{told.stderr[-3000:]}"
        )
    return sorted((json.loads(line) for line in lines), key=lambda said: said["rank"])


def guarded(framework: str, words: str) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        return program(framework, words, "--guard", "--out", folder)


def equal(names: list[str], jobs: int) -> tuple[list[str], bool]:
    """The table of configurations, and whether all were equal and silent."""

    def one(name: str) -> tuple[str, bool]:
        words = CONFIGURATIONS[name]
        plain, watched = program("lightning", words), guarded("lightning", words)
        same = [one["digest"] for one in plain] == [one["digest"] for one in watched]
        errors = [b["code"] for b in watched[0]["broken"] if b["severity"] == "error"]
        ok = same and not errors
        said = "equal" if same else "DIFFERENT"
        cells = name, str(len(plain)), said, watched[0]["verdicts"], ", ".join(errors) or "none"
        row = f"| {' | '.join(cells)} |"
        print(f"{'ok ' if ok else 'NOT'} {name}", file=sys.stderr, flush=True)
        return row, ok

    with ThreadPoolExecutor(jobs) as pool:
        told = list(pool.map(one, names))
    head = ["| Trainer | ranks | losses and weights, bit for bit | verdicts | errors |"]
    return [*head, "| --- " * 5 + "|", *(row for row, _ in told)], all(ok for _, ok in told)


def faults(names: list[str], jobs: int) -> tuple[list[str], bool]:
    """The table of faults, each with its clean twin."""

    def one(name: str) -> tuple[str, bool]:
        framework, words, code, where = FAULTS[name]
        (said, *_) = guarded(framework, words)
        found = [b for b in said["broken"] if b["code"] == code]
        located = [b for b in found if where in f"{b['module']} {b['message']} {b['file']}"]
        twin = words.partition("--fault")[0].replace("16-mixed", "bf16-mixed")
        twin = twin.replace("bfbf16", "bf16")
        (clean, *_) = guarded(framework, twin)
        loud = [b["code"] for b in clean["broken"] if b["severity"] != "note"]
        ok = bool(located) and not loud
        place = next((f"{b['module']} {b['file']}:{b['line']}".strip(" :0") for b in located), "")
        said_of = "found" if found else "MISSED"
        cells = name, code, said_of, place or "the run", ", ".join(loud) or "silent"
        row = f"| {' | '.join(cells)} |"
        print(f"{'ok ' if ok else 'NOT'} {name}", file=sys.stderr, flush=True)
        return row, ok

    with ThreadPoolExecutor(jobs) as pool:
        told = list(pool.map(one, names))
    head = ["| fault | code | | where | clean twin |"]
    return [*head, "| --- " * 5 + "|", *(row for row, _ in told)], all(ok for _, ok in told)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", help="rows whose name holds this")
    args = parser.parse_args()
    wanted = args.only or ""
    rows, same = equal([name for name in CONFIGURATIONS if wanted in name], args.jobs)
    print("## Guard on equals guard off\n\n" + "\n".join(rows) + "\n")
    rows, found = faults([name for name in FAULTS if wanted in name], args.jobs)
    print("## Faults, and their clean twins\n\n" + "\n".join(rows) + "\n")
    green = True
    if not wanted:
        integrations_ci = import_module("integrations_ci")
        green = integrations_ci.main() == 0
    return 0 if same and found and green else 1


if __name__ == "__main__":
    sys.exit(main())
