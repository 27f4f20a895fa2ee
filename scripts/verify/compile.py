"""The bars of the torch.compile contract; parts: cases inject inductor clean models.

Two parts run at a time. All of them take hours; with REEFWATCH_VERIFY_SECONDS in the environment
each stops after that time, tells what it has not tried, and its bar is not met.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
PARTS = {
    "cases": ["compile_cases.py"],
    "models": ["compile_zoo.py"],
    "clean": ["compile_clean.py"],
    "inject": ["compile_inject.py", "--count", "110", "--locate", "110"],
    "inductor": ["compile_inject.py", "--through", "inductor", "--count", "110", "--locate", "110"],
}


def run(part: str) -> tuple[str, bool]:
    """(the table of a part, whether its bar was met)."""
    file, *options = PARTS[part]
    seconds = os.environ.get("REEFWATCH_VERIFY_SECONDS", "")
    if seconds:
        options += ["--seconds", seconds]
    command = [sys.executable, "-W", "ignore", str(HERE / file), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    print(f"{part} is over: {done.returncode}", file=sys.stderr, flush=True)
    return done.stdout, not done.returncode


def main(argv: list[str]) -> int:
    wanted = argv or list(PARTS)
    for part in wanted:
        if part not in PARTS:
            print(f"no part {part!r}; known: {', '.join(PARTS)}", file=sys.stderr)
            return 2
    failed = []
    with ThreadPoolExecutor(2) as pool:
        for part, (table, met) in zip(wanted, pool.map(run, wanted), strict=True):
            print(table, flush=True)
            if not met:
                failed.append(part)
    if failed:
        print(f"Not met: {', '.join(failed)}.")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
