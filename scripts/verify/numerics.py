"""The bars of the numerics contract, by parts: `numerics_<part>.py` beside this file.

`make verify-numerics PARTS="numerics_faults --most 60"` runs one part with its own options. What a
part has printed is kept in `.verify/` under a digest of the code: a run that was interrupted goes
on with the parts that are missing, as long as no line of the code was changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KEPT = ROOT / ".verify"
PARTS = (
    ["numerics_bundles"],
    ["numerics_faultlab"],
    ["numerics_reference", "--most", "110"],
    ["numerics_faults", "--most", "230"],
    ["numerics_clean"],
    ["numerics_resume"],
    ["numerics_environments"],
    ["numerics_device", "--steps", "12"],
)
"""Damaged references; the faultlab; models, loops and optimizers made wrong; kernels made wrong;
healthy runs; resumptions; environments; whole steps on this device. `numerics_pair.py` needs two
devices and is run by hand."""


def digest() -> str:
    """Of the package and of the bars."""
    made = hashlib.sha256()
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.toml")]
    for file in sorted([*files, *HERE.glob("numerics*.py")]):
        made.update(str(file.relative_to(ROOT)).encode() + file.read_bytes())
    return made.hexdigest()


def part(name: str, options: list[str], keep: bool) -> tuple[str, int]:
    """(what it printed, how it ended)."""
    place = KEPT / f"{name}.json"
    now = [digest(), options]
    if keep and place.is_file():
        kept = json.loads(place.read_text())
        if kept["of"] == now:
            print(f"verify: {name} was run already", file=sys.stderr, flush=True)
            return kept["told"], kept["code"]
    print(f"verify: {name}", file=sys.stderr, flush=True)
    command = [sys.executable, str(HERE / f"{name}.py"), *options]
    environ = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=environ)
    if keep:
        KEPT.mkdir(exist_ok=True)
        told = {"of": now, "told": done.stdout, "code": done.returncode}
        place.write_text(json.dumps(told))
    return done.stdout, done.returncode


def main(asked: list[str]) -> int:
    worst = 0
    for name, *options in [asked] if asked else PARTS:
        told, code = part(name, options, not asked)
        print(f"## {name}\n\n{told.strip()}\n\n`{name}` ended with {code}.\n", flush=True)
        worst = max(worst, abs(code))
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
