"""All four faults of the faultlab, on both loops, beside what other tools found of them.

The columns of the other tools are from hands-on runs of the same loops (the MLP, on a CPU, healthy
reference and same seed): msprobe 26.2.0, TrainCheck 0.2.0, DebugMode of torch 2.13.0.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from loop_faultlab import LAB, errors

ROOT = Path(__file__).resolve().parents[2]
STEPS = "12"
FAULTS = {
    "none": ("", "0 of 132", "14 of 644", "0"),
    "upcast": ("run", "found", "noisy", "seen, not located"),
    "customop": ("against", "missed", "missed", "found, located (bit equality)"),
    "zerograd": ("run", "missed", "found", "seen, not located"),
    "gradscale": ("against", "missed", "missed", "seen, not located"),
}
"""How Reefwatch sees it; then msprobe, TrainCheck and DebugMode."""
NAMED = {"upcast": "PREC001", "customop": "REF002", "zerograd": "LOOP001", "gradscale": "REF003"}
OTHERS = {"customop": {"REF001", "REF002"}, "gradscale": {"REF001", "REF003"}}
"""A hook or a second op also shows in the structure."""


def run(kind: str, fault: str, folder: Path, *options: str) -> tuple[int, set[str]]:
    import json

    command = [sys.executable, "-m", "reefwatch", "run", "--quiet", *options]
    command += ["--out", str(folder / "out"), str(LAB / "run_one.py"), kind, fault, STEPS]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    code = subprocess.run(command, capture_output=True, check=False, env=environ).returncode
    report = json.loads((folder / "out" / "report.json").read_text())
    return code, {name for name, _ in errors(report)}


def main() -> None:
    ok = True
    print("| loop | fault | Reefwatch | by | msprobe | TrainCheck | DebugMode |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for kind in ("mlp", "cnn"):
        folder = Path(tempfile.mkdtemp())
        reference = str(folder / "ref")
        run(kind, "none", folder, "--record", reference)
        for fault, (how, *peers) in FAULTS.items():
            if fault == "none":
                ended = [run(kind, fault, folder), run(kind, fault, folder, "--against", reference)]
                right = all(code == 0 and not found for code, found in ended)
                told, by = "0 findings" if right else f"{ended}", "run; --against"
            else:
                options = ("--against", reference) if how == "against" else ()
                code, found = run(kind, fault, folder, *options)
                right = (
                    code == 3
                    and NAMED[fault] in found | OTHERS.get(fault, set())
                    and (found <= OTHERS.get(fault, {NAMED[fault]}))
                )
                told, by = ", ".join(sorted(found)) or "missed", f"run {' '.join(options[:1])}"
            ok &= right
            print(f"| {kind} | {fault} | {told} | {by} | {' | '.join(peers)} |", flush=True)
    raise SystemExit(0 if ok else 1)


if __name__ == "__main__":
    main()
