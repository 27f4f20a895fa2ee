"""The survey kernels and replayed bugs under every Triton wheel that installs.

Each wheel is installed by `reefwatch kernels` itself into its own folder. No card is needed.

Usage: python scripts/verify/kernels-matrix.py [--triton 3.2,...,3.9] [--part survey|replays]
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src"))

from reefwatch.api.kernels import kernels  # noqa: E402
from reefwatch.core.record import Case  # noqa: E402

KERNELS = ROOT / "tests" / "kernels"
VERSIONS = "3.2,3.3,3.4,3.5,3.6,3.7,3.8,3.9"
HELD = 97.0  # percent
#: replay -> (target, check, versions that must be bad, versions that must be clean)
REPLAYS = {
    "1a": ("gfx1100", "KERN001", "3.4 3.5 3.6 3.7 3.8", "3.2 3.3 3.9"),
    "1b": ("gfx1100", "KERN001", "3.8", "3.2 3.3 3.4 3.5 3.6 3.7 3.9"),
    "2": ("gfx1100", "KERN002", "3.5", "3.2 3.3 3.4 3.6 3.7 3.8 3.9"),
    "3": ("gfx942", "KERN010", "3.3 3.5 3.7 3.8", "3.9"),
    "4": ("gfx1100", "KERN010", "3.8", "3.5 3.7 3.9"),
}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def replays(versions: list[str]) -> bool:
    print("## Replayed bugs\n")
    print("| row | target | seen by | bad | clean | not judged | as listed |")
    print("|---|---|---|---|---|---|---|")
    met = True
    for row, (target, code, bad, good) in REPLAYS.items():
        os.environ["REPLAY"] = row
        report = kernels(KERNELS / "replays.py", targets=[target], versions=versions, say=say)
        outcome = next(one for one in report.outcomes if one.code == code)
        ran = {str(e.data["version"]) for e in Case(report.records[0]).rows("kernels.launch")}
        hit = {v for v in ran for f in outcome.findings if f"Triton {v}" in f.message}
        short = {one.rpartition(".")[0] for one in hit}
        clean = {one.rpartition(".")[0] for one in ran - hit}
        wanted = (
            {v for v in bad.split() if v in versions},
            {v for v in good.split() if v in versions},
        )
        as_listed = wanted[0] <= short and wanted[1] <= clean
        met = met and as_listed
        print(
            f"| {row} | {target} | {code} | {', '.join(sorted(hit))} | "
            f"{', '.join(sorted(ran - hit))} | "
            f"{', '.join(v for v in versions if v not in short | clean)} | "
            f"{'yes' if as_listed else 'NO'} |",
            flush=True,
        )
    return met


def survey(versions: list[str]) -> bool:
    print("\n## Survey kernels at 4 warps on gfx1100\n")
    os.environ["SURVEY_WARPS"] = "4"
    os.environ["SURVEY_TARGET"] = "gfx1100"
    print("| Triton | kernels | held | broken | unproven | reports | failed asserts |")
    print("|---|---|---|---|---|---|---|")
    report = kernels(KERNELS / "survey_program.py", versions=versions, launches=1, say=say)
    rows = report.facts["kernels"]
    by_code = {one.code: one for one in report.outcomes}
    noted, total = [], Counter()
    for version in dict.fromkeys(row["triton"] for row in rows):
        mine = [row for row in rows if row["triton"] == version]
        count = Counter(row["verdict"] for row in mine)
        false = [
            f.message
            for code in ("KERN002", "KERN010")
            for f in by_code[code].findings
            if f"Triton {version}" in f.message
        ]
        failed = [
            f.message for f in by_code["KERN003"].findings if f"Triton {version}" in f.message
        ]
        total += count
        total["false"] += len(false)
        total["failed"] += len(failed)
        noted += [f"- Triton {version}: {m}" for m in [*false, *failed]]
        noted += [
            f"- Triton {version}: {row['kernel']}: {row['verdict']}: {row['reason']}"
            for row in mine
            if row["verdict"] != "held"
        ]
        cells = (
            len(mine),
            count["held"],
            count["broken"],
            count["unproven"],
            len(false),
            len(failed),
        )
        print(f"| {version} | " + " | ".join(map(str, cells)) + " |", flush=True)
    judged = total["held"] + total["broken"] + total["unproven"]
    share = 100 * total["held"] / judged
    print(
        f"\nHeld: {share:.1f} % of {judged} (bar: {HELD} %), wrong verdicts: {total['broken']} "
        f"(bar: 0), false reports: {total['false']} (bar: 0).\n"
    )
    for version, told in report.facts["matrix"]["versions"].items():
        if told["failed"]:
            noted.append(f"- Triton {version}: {told['failed']}")
    print("\n".join(noted))
    return share >= HELD and not total["broken"] and not total["false"]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--triton", default=VERSIONS)
    parser.add_argument("--part", choices=("survey", "replays"))
    options = parser.parse_args()
    versions = options.triton.split(",")
    met = True
    if options.part != "survey":
        met = replays(versions) and met
    if options.part != "replays":
        met = survey(versions) and met
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
