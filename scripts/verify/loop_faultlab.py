"""`reefwatch run` over tests/data/faultlab: exit code, findings and where they point."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LAB = Path(__file__).resolve().parents[2] / "tests" / "data" / "faultlab"
EXPECTED = {"none": (0, None), "upcast": (3, "PREC001"), "zerograd": (3, "LOOP001")}
STEPS = "30"


def watched(kind: str, fault: str) -> tuple[int, dict[str, Any]]:
    """(exit code, report) of one loop under `reefwatch run`."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "reefwatch", "run", "--quiet", "--out", folder]
        command += [str(LAB / "run_one.py"), kind, fault, STEPS]
        code = subprocess.run(command, capture_output=True, check=False, timeout=600).returncode
        return code, json.loads((Path(folder) / "report.json").read_text())


def errors(report: dict[str, Any]) -> list[tuple[str, str]]:
    """(code, place) of each finding of a claim broken at error level."""
    found = []
    for outcome in report["outcomes"]:
        if (outcome["verdict"], outcome["severity"]) != ("broken", "error"):
            continue
        for finding in outcome["findings"]:
            place = finding["place"]
            where = f"{place['module']} {Path(place['file']).name}:{place['line']}"
            found.append((outcome["code"], where.strip()))
    return found


def main() -> int:
    print("| loop | fault | exit code | findings at error level | as expected |")
    print("| --- | --- | ---: | --- | --- |")
    good = True
    for kind in ("mlp", "cnn"):
        for fault, (code, check) in EXPECTED.items():
            ended, report = watched(kind, fault)
            found = errors(report)
            right = ended == code and {name for name, _ in found} == ({check} if check else set())
            good &= right
            told = "; ".join(f"{name} at {where}" for name, where in found) or "none"
            print(f"| {kind} | {fault} | {ended} | {told} | {'yes' if right else '**no**'} |")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
