"""What reading a huge log costs: `reefwatch triage` against `wc` and `grep -c` on the same file.

    python benchmarks/triage.py [--bytes 1e9] [--folder DIR] [--print]

Three logs of that size: a long training run (progress lines, now and then a warning, the failure
near its end), one in which every line is worth a look, and one endless line. The table goes to
benchmarks/results/cpu-triage.txt; the bar is 300 MB of resident memory.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIMIT = 300e6
FAULT = (
    b"HW Exception by GPU node-1 (Agent handle: 0x5581) reason :GPU Hang\nAborted (core dumped)\n"
)


def training(size: int) -> Iterator[bytes]:
    """Progress, with a warning in a hundred lines."""
    step = 0
    while size > 0:
        lines = []
        for _ in range(5000):
            step += 1
            lines.append(
                f"step {step} | loss {2 + 1 / step:.6f} | lr 3.00e-04 | {step % 97} it/s, 1.21 GiB"
            )
            if step % 100 == 0:
                lines.append(
                    "MIOpen(HIP): Warning [IsEnoughWorkspace] required: 25657344, provided ptr: 0"
                )
        block = ("\n".join(lines) + "\n").encode()
        size -= len(block)
        yield block
    yield FAULT


def warnings(size: int) -> Iterator[bytes]:
    """Each line holds a word that some clue needs, and differs from the one before."""
    number = 0
    while size > 0:
        lines = []
        for _ in range(5000):
            number += 1
            lines.append(
                f"[rank{number % 8}] NCCL INFO Channel {number % 64}: GPU failed over to path "
                f"{number} after error {number * 7}"
            )
        block = ("\n".join(lines) + "\n").encode()
        size -= len(block)
        yield block
    yield FAULT


def endless(size: int) -> Iterator[bytes]:
    """One line without an end."""
    for _ in range(size // (1 << 20)):
        yield b"loss=0.25 " * ((1 << 20) // 10)


def timed(command: list[str]) -> tuple[float, float, float]:
    """(seconds, seconds of the processor, MB of resident memory) of a command."""
    begun = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - begun
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6


def measure(
    name: str, write: Callable[[int], Iterator[bytes]], size: int, folder: Path
) -> tuple[str, bool]:
    path = folder / "huge.log"
    with open(path, "wb") as file:
        for block in write(size):
            file.write(block)
    print(f"{name}: {path.stat().st_size / 1e9:.2f} GB written", file=sys.stderr)
    commands = {
        "wc": ["wc", str(path)],
        "grep -c": ["grep", "-c", "GPU Hang", str(path)],
        "reefwatch triage": [sys.executable, "-m", "reefwatch", "triage", str(path)],
    }
    cells, met = [f"{name} | {path.stat().st_size / 1e9:.2f} GB"], True
    for what, command in commands.items():
        seconds, busy, memory = timed(command)
        said = f"{seconds:.1f} s ({busy:.1f} s of the processor), {memory:.0f} MB"
        print(f"  {what}: {said}", file=sys.stderr)
        cells.append(said)
        met = met and (what != "reefwatch triage" or memory * 1e6 <= LIMIT)
    path.unlink()
    return "| " + " | ".join(cells) + " |", met


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--bytes", type=float, default=1e9)
    options.add_argument("--folder", default=None)
    options.add_argument("--print", action="store_true", help="print only, write no result")
    given = options.parse_args()
    day, python = datetime.now(timezone.utc).date(), platform.python_version()
    load = f"load {os.getloadavg()[0]:.0f} by others at the start"
    about = f"{day}, Python {python}, {os.cpu_count()} cores, warm file cache, {load}"
    rows, all_met = [], True
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        for name, write in (
            ("training log", training),
            ("every line worth a look", warnings),
            ("one endless line", endless),
        ):
            row, met = measure(name, write, int(given.bytes), Path(folder))
            rows.append(row)
            all_met = all_met and met
    table = "\n".join(
        [
            f"# {about}",
            "",
            "| log | size | wc | grep -c | reefwatch triage |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )
    print(table)
    if not given.print:
        (HERE / "results" / "cpu-triage.txt").write_text(table)
    return 0 if all_met else 1


if __name__ == "__main__":
    sys.exit(main())
