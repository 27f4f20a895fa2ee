"""The bars of the torch.compile contract; parts: cases inject clean models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PARTS = {
    "cases": ["compile_cases.py"],
    "inject": ["compile_inject.py", "--count", "110", "--locate", "110"],
    "clean": ["compile_clean.py"],
    "models": ["compile_zoo.py"],
}


def main(argv: list[str]) -> int:
    wanted = argv or list(PARTS)
    failed = []
    for part in wanted:
        if part not in PARTS:
            print(f"no part {part!r}; known: {', '.join(PARTS)}", file=sys.stderr)
            return 2
        file, *options = PARTS[part]
        done = subprocess.run([sys.executable, "-W", "ignore", str(HERE / file), *options])
        print(flush=True)
        if done.returncode:
            failed.append(part)
    if failed:
        print(f"Not met: {', '.join(failed)}.")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
