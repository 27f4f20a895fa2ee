"""The bars of the machine contract: every part beside this file that is called `machine_<part>.py`.

Each part is a script of its own: prints its tables in Markdown, its progress to stderr, and ends
with 0 when its bars were met. What is asked beyond the word names the parts to run:
`make verify-machine PARTS="machine_doctor"`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def parts() -> list[str]:
    return sorted(file.stem for file in HERE.glob("machine_*.py"))


def main(asked: list[str]) -> int:
    worst = 0
    for part in asked or parts():
        print(f"verify: {part}", file=sys.stderr, flush=True)
        command = [sys.executable, str(HERE / f"{part}.py")]
        environ = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=environ)
        print(f"{done.stdout.strip()}\n\n`{part}` ended with {done.returncode}.\n", flush=True)
        worst = max(worst, abs(done.returncode))
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
