"""The bars of the numerics contract, by parts: `numerics_<part>.py` beside this file.

`make verify-numerics PARTS="numerics_faults --most 60"` runs one part with its own options.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PARTS = (["numerics_faults"], ["numerics_reference"], ["numerics_device", "--steps", "12"])
"""Kernels made wrong; models, loops and optimizers made wrong; real models on this device.
`numerics_pair.py` needs two devices and is run by hand."""


def main(asked: list[str]) -> int:
    worst = 0
    for part, *options in [asked] if asked else PARTS:
        print(f"verify: {part}", file=sys.stderr, flush=True)
        command = [sys.executable, str(HERE / f"{part}.py"), *options]
        environ = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=environ)
        print(f"{done.stdout.strip()}\n\n`{part}` ended with {done.returncode}.\n", flush=True)
        worst = max(worst, abs(done.returncode))
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
