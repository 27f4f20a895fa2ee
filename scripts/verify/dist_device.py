"""The distributed contract on two GPUs over NCCL: `python scripts/verify/dist_device.py [--gloo]`.

Prints tables in Markdown; what it does is bounded in time, part by part. With `--gloo` it does the
same without a GPU, which is how the script itself is tried.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BACKEND = "gloo" if "--gloo" in sys.argv else "nccl"
os.environ["BACKEND"] = BACKEND
AT_ONCE = 1 if BACKEND == "gloo" else 5
sys.path.insert(0, str(HERE))

import dist as bars  # noqa: E402

WANTED = {"quick": 15, "full": 90}
FAULTS = {
    "rank 1 is dropped from all_reduce": (
        "import torch.distributed as d\nf = d.all_reduce\n"
        "def bad(t, *a, **k):\n    if rank == 1: t.zero_()\n    return f(t, *a, **k)\n"
        "d.all_reduce = bad\n",
        "all_reduce",
        "rank 1",
    ),
    "rank 1 gets its all_gather in another order": (
        "import torch.distributed as d\nf = d.all_gather\n"
        "def bad(outs, t, *a, **k):\n    w = f(outs, t, *a, **k)\n"
        "    if rank == 1:\n        if w is not None: w.wait()\n        outs[0].copy_(outs[1])\n"
        "    return w\nd.all_gather = bad\n",
        "all_gather",
        "holds what rank 1 sent",
    ),
    "rank 1 stays away from broadcast": (
        "import time\nimport torch.distributed as d\nf = d.broadcast\n"
        "def bad(*a, **k):\n    if rank == 1: time.sleep(100)\n    return f(*a, **k)\n"
        "d.broadcast = bad\n",
        "broadcast,barrier",
        "a hang",
    ),
    "rank 1's process is killed": (
        "import os, signal\nimport torch.distributed as d\nf = d.broadcast\n"
        "def bad(*a, **k):\n    if rank == 1: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return f(*a, **k)\nd.broadcast = bad\n",
        "broadcast,barrier",
        "was killed by SIGKILL",
    ),
}


def say(text: str) -> None:
    print(text, flush=True)


def tell(text: str) -> None:
    print(f"{time.monotonic() - BEGUN:.0f} s: {text}", file=sys.stderr, flush=True)


def command(folder: str, *words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "reefwatch", "dist", "--nproc", "2", "--backend", BACKEND]
    return subprocess.run(
        [*line, "--out", folder, *words],
        env=bars.environ(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def trial(level: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        told = command(folder, "--level", level, "--bench")
        seconds = time.monotonic() - begun
        rows = bars.worst(bars.rows_in(folder))
    states = [state for state, _ in rows.values()]
    count = ", ".join(f"{states.count(s)} {s}" for s in sorted(set(states)))
    say(f"\n## reefwatch dist --nproc 2 --level {level} --bench\n")
    say(f"{len(rows)} steps in {seconds:.0f} s (wanted: near {WANTED[level]} s without --bench), ")
    say(f"exit {told.returncode}: {count}.\n")
    odd = [(state, row) for state, row in rows.values() if state not in ("right", "skipped")]
    alike: dict[tuple[str, str], list[str]] = {}
    for state, row in odd:
        words = re.sub(r"-?\d[\d.]*j?", "#", str(row.get("detail", "")))[:110]
        form = str(row.get("form") or "")
        key = (state, f"{row['phase']} {form} {row.get('layout') or ''}: {words}")
        alike.setdefault(key, []).append(str(row.get("dtype") or row["name"]))
    for (state, words), names in list(alike.items())[:60]:
        say(f"- {state}: {words} ({', '.join(names[:6])}{', ...' if len(names) > 6 else ''})")
    say("\n```")
    say(told.stdout[-5500:])
    say(told.stderr[-600:])
    say("```")
    tell(f"{level} {seconds:.0f} s")


def injected(name: str) -> str:
    program, forms, words = FAULTS[name]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "fault.py"
        file.write_text(program)
        begun = time.monotonic()
        more = ["--inject", str(file), "--collectives", forms, "--dtypes", "float32"]
        told = command(f"{folder}/run", *more, "--phases", "matrix", "--deadline", "8s")
        seconds = time.monotonic() - begun
    text = " ".join((told.stdout + told.stderr).split())
    at = text.find(words)
    said = text[max(0, at - 60) : at + 160] if at >= 0 else f"NOT said; {text[-300:]}"
    met = bars._met(at >= 0 and told.returncode == 3)
    return f"| {name} | {told.returncode} | {seconds:.0f} | {said.replace('|', '/')} | {met} |"


def injections() -> None:
    say("\n## Faults in collectives\n")
    say("| fault | exit | s | said | |\n| --- | --- | --- | --- | --- |")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for line in pool.map(injected, FAULTS):
            say(line)
    tell("faults in collectives")


def watched() -> None:
    say("\n## Guards in a watched run\n")
    say("A clean run must be silent, and end with the same losses and weights as one without a ")
    say("watch, to the last bit.\n")
    say("| training or calls | told | |\n| --- | --- | --- |")

    wanted = os.environ.get("FAULTS", "").split(",") if os.environ.get("FAULTS") else bars.WATCHED

    def one(fault: str) -> tuple[str, Any]:
        try:
            return fault, bars.watched_run(fault)
        except subprocess.TimeoutExpired:
            return fault, (False, set(), "it did not end")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for fault, (met, found, why) in pool.map(one, wanted):
            words = "" if met else " " + " ".join(why.split()).replace("|", "/")[:700]
            say(f"| {fault} | {', '.join(sorted(found)) or 'nothing'} | {bars._met(met)}{words} |")
    tell("watched")


def mutants() -> None:
    bars.MUTANTS, bars.CLEAN = {2: 110}, {2: 10}
    text, _ = bars.mutants()
    say("\n" + text.replace("## Mutants", "## Over this backend: mutants"))
    tell("mutants")


def cost() -> None:
    device = "cpu" if BACKEND == "gloo" else "cuda"
    out = os.environ.get("OUT", "/tmp")
    words = ["--device", device, "--pairs", "2", "--out", out]
    words += ["--steps", "60"] if BACKEND == "gloo" else []
    line = [sys.executable, str(HERE.parents[1] / "benchmarks" / "dist.py"), *words]
    told = subprocess.run(line, capture_output=True, text=True, check=False, timeout=200)
    say("\n## What it costs\n")
    say(told.stdout or told.stderr[-1500:])
    tell("cost")


def versions() -> None:
    import torch

    about = {"torch": torch.__version__, "devices": torch.cuda.device_count()}
    if torch.cuda.is_available():
        about["device"] = torch.cuda.get_device_name(0)
        about["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    say(json.dumps(about))


PARTS = {
    "versions": versions,
    "quick": lambda: trial("quick"),
    "injections": injections,
    "watched": watched,
    "full": lambda: trial("full"),
    "mutants": mutants,
    "cost": cost,
}

if __name__ == "__main__":
    BEGUN = time.monotonic()
    for name in [word for word in sys.argv[1:] if word in PARTS] or PARTS:
        try:
            PARTS[name]()
        except Exception as error:  # the parts behind it are tried all the same
            say(f"\n{name}: {type(error).__name__}: {error}")
