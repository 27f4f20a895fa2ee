"""Each kind of state not restored, over scripts that save and resume in different ways."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "tests" / "data" / "resume"
SCRIPTS: dict[str, list[str]] = {
    "epochs.py": [],
    "updates.py": ["--stop-after", "10", "--then", "--resume checkpoints/0010"],
    "byhand.py": ["--first", "--until 9", "--then", "--resume model.pt"],
}
"""With the options that drive them."""
KINDS = {
    "model": "REF011",
    "average": "REF011",
    "optimizer": "REF012",
    "scheduler": "REF013",
    "scaler": "REF014",
    "sampler": "REF015",
    "random": "REF016",
}
"""What is left out, and the check that is to name it."""
HAVE = {
    "epochs.py": ("model", "optimizer", "scheduler", "scaler", "sampler", "random"),
    "updates.py": ("model", "average", "optimizer", "scheduler", "sampler", "random"),
    "byhand.py": ("model", "optimizer", "scheduler", "sampler", "random"),
}


def checked(script: str, leave: str, folder: Path) -> tuple[int, dict[str, str], dict[str, Any]]:
    """(exit code, verdict by code, the whole report) of `resume-check` in a copy of the script."""
    work = folder / f"{script}-{leave or 'clean'}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    shutil.copy(LAB / script, work / script)
    command = [sys.executable, "-m", "reefwatch", "resume-check", "--json"]
    command += ["--out", str(folder / "out" / work.name), *SCRIPTS[script], script]
    command += ["--leave", leave] if leave else []
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    told = subprocess.run(
        command, cwd=work, env=environ, capture_output=True, text=True, check=False
    )
    if told.returncode not in (0, 3):
        raise RuntimeError(told.stderr)
    report = json.loads(told.stdout)
    return told.returncode, {o["code"]: o["verdict"] for o in report["outcomes"]}, report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scripts", nargs="+", default=list(SCRIPTS))
    given = parser.parse_args()
    began, ok = time.perf_counter(), True
    scratch = Path(tempfile.mkdtemp())
    print("| script | not restored | named | broken | unproven |")
    print("| --- | --- | --- | --- | --- |")
    found = of = 0
    for script in given.scripts:
        for leave in ("", *HAVE[script]):
            print(script, leave or "clean", file=sys.stderr)
            code, verdicts, _ = checked(script, leave, scratch)
            broken = [name for name, said in verdicts.items() if said == "broken"]
            unproven = [name for name, said in verdicts.items() if said == "unproven"]
            right = KINDS[leave] in broken if leave else not broken and not unproven
            ok &= right and bool(code) == bool(leave)
            found, of = found + (right and bool(leave)), of + bool(leave)
            print(
                f"| {script} | {leave or 'nothing (clean)'} | {'yes' if right else 'no'} "
                f"| {' '.join(broken)} | {' '.join(unproven)} |",
                flush=True,
            )
    shutil.rmtree(scratch, ignore_errors=True)
    print(f"\n{found} of {of} named; {time.perf_counter() - began:.0f} s.")
    raise SystemExit(0 if ok else 1)


if __name__ == "__main__":
    main()
