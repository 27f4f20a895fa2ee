"""The bars of the numerics contract, by parts: `numerics_<part>.py` beside this file.

`make verify-numerics PARTS="numerics_faults --most 60"` runs one part with its own options. What a
part has printed is kept in `.verify/` under a digest of the code: a run that was interrupted goes
on with the parts that are missing, as long as no line of the code was changed. `KEPT=1` only puts
together what is kept, from earlier code too, and a part that is missing was not run, which is no
bar met. Each part says at which commit and where it was run.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

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


def about() -> dict[str, str]:
    """Commit and machine."""
    import torch

    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False,
    ).stdout.strip()  # fmt: skip
    device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no GPU"
    python = platform.python_version()
    where = f"torch {torch.__version__}, Python {python}, {os.cpu_count()} cores, {device}"
    return {"commit": commit, "where": where}


def part(name: str, options: list[str], keep: bool) -> dict[str, Any]:
    """What it printed (`told`), how it ended (`code`), and `commit` and `where` of its run."""
    place = KEPT / f"{name}.json"
    now = [digest(), options]
    if keep and place.is_file():
        kept = json.loads(place.read_text())
        if kept["of"] == now or os.environ.get("KEPT"):
            print(f"verify: {name} was run already", file=sys.stderr, flush=True)
            return dict(kept)
    if keep and os.environ.get("KEPT"):
        return {"told": "Not run to its end.", "code": 1, "commit": "none", "where": "nowhere"}
    print(f"verify: {name}", file=sys.stderr, flush=True)
    command = [sys.executable, str(HERE / f"{name}.py"), *options]
    environ = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=environ)
    printed = done.stdout.replace(f"{ROOT}/", "")
    told = {"of": now, "told": printed, "code": done.returncode, **about()}
    if keep:
        KEPT.mkdir(exist_ok=True)
        place.write_text(json.dumps(told))
    return told


def main(asked: list[str]) -> int:
    worst = 0
    for name, *options in [asked] if asked else PARTS:
        told = part(name, options, not asked)
        end = f"`{name}` ended with {told['code']}; commit {told['commit']}, {told['where']}."
        print(f"## {name}\n\n{told['told'].strip()}\n\n{end}\n", flush=True)
        worst = max(worst, abs(told["code"]))
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
