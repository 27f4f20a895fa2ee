"""The bars of the main job: watched equals unwatched, and the faults of a training loop are found.

Each part is a script of its own, so that one that fails or hangs ends itself only. What is asked
beyond the word (`make verify-loop PARTS="loop_faults"`) names the parts to run.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PARTS = {
    "loop_faultlab": "Two faults in whole processes",
    "loop_equality": "",
    "loop_ops": "The op layer changes no bit of torch's own op database",
    "loop_faults": "A bank of faults over all sites",
}
"""Each part and its heading; one without a heading writes its own."""


def main(asked: list[str]) -> int:
    worst = 0
    for part in asked or PARTS:
        if PARTS[part]:
            print(f"## {PARTS[part]}\n", flush=True)
        print(f"verify: {part}", file=sys.stderr, flush=True)
        code = subprocess.run([sys.executable, str(HERE / f"{part}.py")], check=False).returncode
        print(f"\n`{part}` ended with {code}.\n", flush=True)
        worst = max(worst, abs(code))
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
