"""The bars of the main job: watched equals unwatched, and the faults of a training loop are found.

Each part is a script of its own, so that one that fails or hangs ends itself only. What is asked
beyond the word (`make verify-loop PARTS="loop_faults"`) names the parts to run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
PARTS = {
    "loop_equality": "",
    "loop_faultlab": "Two faults in whole processes",
    "loop_ops": "The op layer changes no bit of torch's own op database",
    "loop_faults": "A bank of faults over all sites",
}
"""Each part and its heading; one without a heading writes its own."""
MORE = {"loop_ops": ["--seconds", "0.2"]}
"""What a part is asked besides; the sweep counts what it cut short."""


def run(part: str) -> subprocess.CompletedProcess[str]:
    """One part, on one thread of torch's, so that several can go on side by side."""
    print(f"verify: {part}", file=sys.stderr, flush=True)
    command = [sys.executable, str(HERE / f"{part}.py"), *MORE.get(part, [])]
    environ = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=environ)


def main(asked: list[str]) -> int:
    parts = asked or list(PARTS)
    worst = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for part, done in zip(parts, pool.map(run, parts), strict=True):
            if PARTS[part]:
                print(f"## {PARTS[part]}\n")
            print(f"{done.stdout}\n`{part}` ended with {done.returncode}.\n", flush=True)
            worst = max(worst, abs(done.returncode))
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
