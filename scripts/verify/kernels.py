"""The bars of the contract of kernels; the versions have a page of their own (kernels-matrix).

Triton 3.7 is found, or installed into its own folder, as `reefwatch kernels` does it; the parts run
in a process with it. liger-kernel is installed beside it when it is missing.

Usage: python scripts/verify/kernels.py [survey|faults|speed|liger ...]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "scripts" / "verify"
sys.path.insert(0, str(ROOT / "src"))

from reefwatch.experiments.kernels import environments  # noqa: E402

TRITON = "3.7"
LIGER = 25  # kernels that must be held
PARTS = {
    "survey": [["kernels_survey.py"]],
    "faults": [
        ["kernels_faults.py"],
        ["kernels_faults.py", "--target", "gfx942", "--sites", "200"],
        ["kernels_faults.py", "--target", "gfx1201", "--sites", "200"],
    ],
    "speed": [["kernels_speed.py"]],
}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def variables() -> dict[str, str]:
    found = environments.find(TRITON, say)
    if found.failed:
        raise SystemExit(found.failed)
    made = found.variables(environments.home())
    return made


def part(name: str, environment: dict[str, str]) -> bool:
    print(f"\n## {name.capitalize()}\n", flush=True)
    met = True
    for command in PARTS[name]:
        say(" ".join(command))
        done = subprocess.run(
            [sys.executable, str(HERE / command[0]), *command[1:]], env=environment, check=False
        )
        met = met and done.returncode == 0
    return met


def liger(environment: dict[str, str]) -> bool:
    """liger-kernel from PyPI, untouched: each kernel with its verdict."""
    folder = environments.home() / "liger"
    if not (folder / "liger_kernel").exists():
        command = [sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--target"]
        subprocess.run([*command, str(folder), "liger-kernel", "transformers"], check=True)
    path = os.pathsep.join([environment["PYTHONPATH"], str(folder)])
    program = ROOT / "tests" / "kernels" / "thirdparty" / "liger_suite.py"
    done = subprocess.run(
        [sys.executable, "-m", "reefwatch", "kernels", str(program), "--triton", TRITON, "--json",
         "--launches", "1"],
        env={**environment, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    return told(json.loads(done.stdout))


def told(report: dict[str, object]) -> bool:
    """The table of one report; true when enough kernels are held and none is wrong."""
    facts = report["facts"]
    assert isinstance(facts, dict)
    rows = facts["kernels"]
    count = Counter(row["verdict"] for row in rows)
    print("\n## liger-kernel through its public functions, forward and backward\n")
    print("| kernel | verdict | why |\n|---|---|---|")
    for row in rows:
        print(f"| {row['kernel'].rpartition('.')[2]} | {row['verdict']} | {row['reason'][:160]} |")
    print(f"\nHeld: {count['held']} of {len(rows)} (bar: {LIGER}), wrong: {count['broken']}.\n")
    outcomes = report["outcomes"]
    assert isinstance(outcomes, list)
    for outcome in outcomes:
        texts = [finding["message"] for finding in outcome["findings"]][:6]
        text = "; ".join(texts) or outcome.get("reason", "")
        print(f"- {outcome['code']}: {outcome['verdict']}{': ' + text[:900] if text else ''}")
    return count["held"] >= LIGER and not count["broken"]


def main(asked: list[str]) -> int:
    environment = variables()
    met = True
    for name in asked or [*PARTS, "liger"]:
        met = (liger(environment) if name == "liger" else part(name, environment)) and met
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
