"""The bars of the machine contract: each `machine_*.py` beside this, one after the other.

python scripts/verify/machine.py [PART...]
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def parts(folder: Path = HERE) -> list[str]:
    return sorted(file.stem.removeprefix("machine_") for file in folder.glob("machine_*.py"))


def main(argv: list[str]) -> int:
    wanted = argv or parts()
    unknown = set(wanted) - set(parts())
    if unknown:
        print(f"no part {', '.join(sorted(unknown))}; known: {', '.join(parts())}", file=sys.stderr)
        return 2
    failed = []
    for part in wanted:
        print(f"machine: {part}", file=sys.stderr, flush=True)
        done = subprocess.run(
            [sys.executable, str(HERE / f"machine_{part}.py")], stdout=subprocess.PIPE, text=True
        )
        print(done.stdout)
        if done.returncode or not done.stdout.strip():
            failed.append(part)
    if failed:
        print(f"Parts whose bars were not met: {', '.join(failed)}.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
