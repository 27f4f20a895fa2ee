"""What `reefwatch doctor` costs beside other tools that look at a machine.

    python benchmarks/doctor.py [--rounds 15] [--tools DIR]

Writes results/cpu-doctor.md. The others (rocm-bootstrap, rocmate) are installed from PyPI into an
environment of their own at DIR, made if it is not there. All commands run in turn, so that what
else the machine does falls on all of them alike; CPU time is that of the process and its children
as the kernel counts it, over that of bare Python.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import reefwatch
from tests.machine.machines import desktop, write

HERE = Path(__file__).resolve().parent
AIM = 0.25
"""Seconds of CPU time over bare Python."""
TOOLS = ("rocm-bootstrap", "rocmate")


@dataclass
class Timed:
    """One command and its runs: (CPU s, wall s)."""

    name: str
    argv: list[str]
    bare: str = "python -c pass"
    runs: list[tuple[float, float]] = field(default_factory=list)

    def cpu(self) -> float:
        return statistics.median(run[0] for run in self.runs)

    def wall(self) -> float:
        return statistics.median(run[1] for run in self.runs)


def once(argv: list[str], cache: str) -> tuple[float, float]:
    """(CPU s, wall s) of one run, with compiled modules kept as an installation keeps them."""
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environ["PYTHONPYCACHEPREFIX"] = cache
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environ,
        check=False,
    )
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, wall


def install(folder: Path) -> dict[str, str]:
    """The other tools in their environment; their versions."""
    if not (folder / "bin/python").exists():
        venv.create(folder, with_pip=True)
    python = str(folder / "bin/python")
    subprocess.run([python, "-m", "pip", "install", "-qq", *TOOLS], check=True)
    code = f"from importlib.metadata import version as v\nfor n in {TOOLS}: print(v(n))"
    told = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return dict(zip(TOOLS, told.stdout.split(), strict=True))


def commands(folder: Path, versions: dict[str, str], amd: Path) -> list[Timed]:
    python, bin_ = sys.executable, folder / "bin"
    replayed = [python, "-m", "reefwatch", "doctor", "--root", str(amd)]
    found = [
        Timed("python -c pass", [python, "-c", "pass"], bare=""),
        Timed("reefwatch doctor", [python, "-m", "reefwatch", "doctor"]),
        Timed("reefwatch doctor --json", [python, "-m", "reefwatch", "doctor", "--json"]),
        Timed("reefwatch doctor --root (a desktop with an RX 7900 XTX)", replayed),
    ]
    if versions:
        found += [
            Timed("python -c pass (their environment)", [str(bin_ / "python"), "-c", "pass"], ""),
            Timed(
                f"rocm-bootstrap-detect {versions['rocm-bootstrap']}",
                [str(bin_ / "rocm-bootstrap-detect")],
                "python -c pass (their environment)",
            ),
            Timed(
                f"rocmate {versions['rocmate']} doctor",
                [str(bin_ / "rocmate"), "doctor"],
                "python -c pass (their environment)",
            ),
        ]
    return found


def table(rows: list[Timed], rounds: int) -> str:
    by_name = {row.name: row for row in rows}
    lines = [
        f"{datetime.now(timezone.utc).date().isoformat()}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, {rounds} rounds, medians. Reefwatch "
        f"{reefwatch.__version__}; torch is not imported. There is no AMD GPU in this machine.",
        "",
        "| command | CPU s | CPU s over bare Python | wall s |",
        "| --- | ---: | ---: | ---: |",
    ]
    for row in rows:
        over = f"{row.cpu() - by_name[row.bare].cpu():.3f}" if row.bare else ""
        lines.append(f"| `{row.name}` | {row.cpu():.3f} | {over} | {row.wall():.3f} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tools", type=Path, help="environment of the other tools; else left out")
    given = parser.parse_args()
    versions = install(given.tools) if given.tools else {}
    with tempfile.TemporaryDirectory() as cache:
        amd = write(Path(cache) / "desktop", desktop())
        rows = commands(given.tools or Path(), versions, amd)
        for row in rows:
            once(row.argv, cache)  # compiles
        for number in range(given.rounds):
            print(f"round {number + 1} of {given.rounds}", file=sys.stderr, flush=True)
            for row in rows:
                row.runs.append(once(row.argv, cache))
    text = table(rows, given.rounds)
    print(text)
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    (results / "cpu-doctor.md").write_text(text)
    over = max(row.cpu() for row in rows[1:4]) - rows[0].cpu()
    print(f"aim {AIM} s: {'met' if over <= AIM else 'missed'} ({over:.3f} s)", file=sys.stderr)
    return 0 if over <= AIM else 1


if __name__ == "__main__":
    sys.exit(main())
