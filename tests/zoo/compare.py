"""Runs a script of the zoo plain and watched, and compares all that a user could notice.

`python tests/zoo/compare.py [NAME...]` compares those (all without a name) and prints one line
each; the exit code is 1 when any differs.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from reefwatch.core.fact import Evidence
from reefwatch.core.record import Record
from reefwatch.store import reader

_LOG = re.compile(rb"^([VIWEC]\d{4} [\d:.]+ \d+|USDT:[-\d]+ [\d:]+ \d+:\d+) ", re.MULTILINE)
"""What torch's own logs begin their lines with: time and process number."""
SCRIPTS = Path(__file__).parent / "scripts"
SOURCE = Path(__file__).parents[2] / "src"
TIMEOUT_SECONDS = 240


@dataclass(frozen=True)
class Animal:
    """One script, how it is started, and how much of it must have been looked at."""

    name: str
    examined: int
    """Steps that must have been examined, at the least; 0 when there is no torch."""
    fast: bool = False
    """Part of the subset that every test run compares."""
    torchrun: bool = False
    options: tuple[str, ...] = ()


ZOO = (
    Animal("cnn", 20, fast=True),
    Animal("transformer", 20),
    Animal("fast_path", 20, fast=True),
    Animal("asking", 20, fast=True),
    Animal("rnn", 20),
    Animal("gan", 20, fast=True),
    Animal("lbfgs", 12, fast=True),
    Animal("accumulation", 16),
    Animal("amp_scaler", 20, fast=True),
    Animal("checkpointing", 20, fast=True),
    Animal("compiled", 20, fast=True),
    Animal("compiled_step", 8),
    Animal("compiled_inductor", 8),
    Animal("func", 5),
    Animal("double_backward", 20),
    Animal("hooks", 20, fast=True),
    Animal("loader_fork", 14, fast=True),
    Animal("loader_spawn", 10),
    Animal("thread", 20, fast=True),
    Animal("two_threads", 20),
    Animal("raises", 5, fast=True),
    Animal("raises_backward", 5, fast=True),
    Animal("exits", 4, fast=True),
    Animal("mocks", 20, fast=True),
    Animal("custom_function", 18),
    Animal("own_modes", 20, fast=True),
    Animal("fake", 10),
    Animal("scripted", 14),
    Animal("exported", 9),
    Animal("profiled", 3),
    Animal("saved_hooks", 18),
    Animal("anomaly", 12),
    Animal("subclasses", 12, fast=True),
    Animal("sparse", 10),
    Animal("odd_dtypes", 14),
    Animal("copies", 20),
    Animal("defaults", 18),
    Animal("inference", 20, fast=True),
    Animal("no_optimizer", 18),
    Animal("raw_tensors", 20),
    Animal("optimizers", 20),
    Animal("forks", 12, fast=True),
    Animal("ddp", 8, torchrun=True),
    Animal("ddp_spawn", 6),
    Animal("swa_ema", 20),
    Animal("nested", 12),
    Animal("quantized", 12),
    Animal("meta_init", 12),
    Animal("inner_loop", 16),
    Animal("episodes", 20),
    Animal("interleaved", 8),
    Animal("arguments", 13),
    Animal("replaces", 10, fast=True),
    Animal("groups", 8),
    Animal("no_torch", 0, fast=True),
    Animal("numpy_only", 0),
)


@dataclass
class Ran:
    """What one run left behind."""

    code: int
    stdout: bytes
    stderr: bytes
    seconds: float


@dataclass
class Comparison:
    """A plain and a watched run of one script."""

    animal: Animal
    plain: Ran
    watched: Ran
    records: list[Record]
    differences: list[str] = field(default_factory=list)
    """What a user could notice; empty when the runs are equal."""
    blind: list[str] = field(default_factory=list)
    """Why the equality says little: not looked at, or an instrument failed."""

    @property
    def examined(self) -> int:
        return max((_examined(record) for record in self.records), default=0)

    @property
    def steps(self) -> str:
        for record in self.records:
            fact = record.fact("run.steps")
            if isinstance(fact, Evidence):
                return f"{fact.value['count']} {fact.value['kind']}"  # type: ignore[index,call-overload]
        return "not counted"


def compare(animal: Animal) -> Comparison:
    """Run it both ways. Raises subprocess.TimeoutExpired when it hangs."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        plain = _run(animal, [], folder)
        flags = ["--quiet", "--no-live", "--exit-code=script", "--out", str(out)]
        watched = _run(animal, ["-m", "reefwatch", "run", *flags, *animal.options], folder)
        # one folder at a time: a spawned rank 0 is another process than its parent
        folders = [out, *out.glob("spawned-*")] if out.exists() else []
        records = [record for one in folders for record in reader.load([one])]
    found = Comparison(animal, plain, watched, records)
    _differ(found)
    _see(found)
    return found


def _run(animal: Animal, before: list[str], folder: str) -> Ran:
    start = [sys.executable]
    if animal.torchrun:
        launcher = ["--nproc-per-node=2", "--master-port=0", "--rdzv-backend=c10d"]
        start += ["-m", "torch.distributed.run", *launcher, "--rdzv-endpoint=localhost:0"]
    began = time.perf_counter()
    done = subprocess.run(
        [*start, *before, f"{animal.name}.py"],
        cwd=SCRIPTS,
        env=_environment(tempfile.mkdtemp(dir=folder)),
        capture_output=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr, time.perf_counter() - began)


def _environment(cache: str) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(SOURCE)]))
    fixed = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    # a graph that the other run left in inductor's cache would not be compiled again
    fixed |= {"TORCHINDUCTOR_CACHE_DIR": cache, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    return {**os.environ, **fixed, "PYTHONDONTWRITEBYTECODE": "1"}


def _differ(found: Comparison) -> None:
    plain, watched = found.plain, found.watched
    if plain.code != watched.code:
        found.differences.append(f"exit code {watched.code} instead of {plain.code}")
    for stream in ("stdout", "stderr"):
        one, two = (_LOG.sub(b"", getattr(ran, stream)) for ran in (plain, watched))
        if found.animal.torchrun and stream == "stderr":
            continue  # torchrun itself writes there, with times and process numbers
        if one != two:
            found.differences.append(f"{stream}:\n" + _diff(one, two))


def _diff(one: bytes, two: bytes) -> str:
    sides = [part.decode(errors="replace").splitlines() for part in (one, two)]
    lines = difflib.unified_diff(*sides, "plain", "watched", lineterm="", n=1)
    return "\n".join(list(lines)[:40])


def _see(found: Comparison) -> None:
    if not found.records:
        found.blind.append("there is no record")
    for record in found.records:
        for name, fact in record.facts.items():
            if name.startswith("errored.") and isinstance(fact, Evidence):
                found.blind.append(f"{name}: {str(fact.value)[:300]}")
    if found.examined < found.animal.examined:
        found.blind.append(f"{found.examined} steps examined of {found.animal.examined} at least")


def _examined(record: Record) -> int:
    counts = []
    for name, part in (("watch.exam", "steps"), ("watch.budget", "examined")):
        fact = record.fact(name)
        counts.append(int(fact.value[part]) if isinstance(fact, Evidence) else 0)  # type: ignore[index,call-overload,arg-type]
    return sum(counts)


def main(names: list[str]) -> int:
    bad = 0
    for animal in ZOO:
        if names and animal.name not in names:
            continue
        found = compare(animal)
        words = found.differences + found.blind
        bad += bool(words)
        print(
            f"{'differs' if found.differences else 'blind' if found.blind else 'equal':8}"
            f"{animal.name:20}{found.examined:4} examined of {found.steps:16}"
            f"{found.plain.seconds:6.1f}s {found.watched.seconds:6.1f}s",
            flush=True,
        )
        for word in words:
            print("    " + word.replace("\n", "\n    "), flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
