"""The launch hook on a card: `reefwatch run --kernels` over own kernels and those of torch.compile.

Usage: python scripts/verify/kernels_device.py (needs a card and Triton)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "kernels" / "card_program.py"


def run(*command: str) -> tuple[str, float, str]:
    begun = time.monotonic()
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, timeout=400
    )
    print(done.stderr[-6000:], file=sys.stderr)
    return done.stdout, time.monotonic() - begun, done.stderr


def main() -> int:
    plain, alone, _ = run(str(PROGRAM))
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.json"
        watched, seconds, _ = run(
            *("-m", "reefwatch", "run", "--kernels", "--exam", "60s", "--no-live"),
            *("--exit-code=script", "--out", f"{folder}/run", "--json", str(told), str(PROGRAM)),
        )
        report = json.loads(told.read_text())
        rows = [
            json.loads(line)["data"]
            for line in (Path(folder) / "run" / "rank0.jsonl").read_text().splitlines()
            if '"event":"kernels.launch"' in line
        ]
    print(f"Unwatched {alone:.1f} s, under --kernels {seconds:.1f} s (compiling included).\n")
    same = plain == watched and bool(plain)
    print(f"Digests of the results alike: {'yes' if same else 'NO'}.\n")
    print("| kernel | grid | build | witnesses | interpreter |\n|---|---|---|---|---|")
    for row in rows:
        subject = next(iter(row["subjects"].values()))
        words = [
            f"{w['name']}: {'agrees' if w['agrees'] else 'differs in ' + str(w['different'])}"
            for w in subject["witnesses"]
        ]
        build = ", ".join(f"{k}={v}" for k, v in {**row["constants"], **row["options"]}.items())
        print(f"| {row['name'][:60]} | {row['grid']} | {build[:80]} | {'; '.join(words)} "
              f"| {row['interpreter'][:120]} |")  # fmt: skip
    print("\n| check | verdict | findings |\n|---|---|---|")
    named = False
    for outcome in report["outcomes"]:
        if not outcome["code"].startswith("KERN"):
            continue
        texts = [finding["message"] for finding in outcome["findings"]]
        named = named or (outcome["code"] == "KERN004" and any("short_sum" in t for t in texts))
        text = "; ".join(texts)[:600] or outcome.get("reason", "")
        print(f"| {outcome['code']} | {outcome['verdict']} | {text} |")
    wrong = [o for o in report["outcomes"] if o["code"] == "KERN001" and o["verdict"] == "broken"]
    generated = [row for row in rows if row["name"].startswith("triton_")]
    print(
        f"\nInductor's kernels looked at: {len(generated)}; disagreeing candidates named: {named}."
    )
    return 0 if same and named and generated and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
