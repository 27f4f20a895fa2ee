"""The survey kernels on the virtual GPU: each target and number of warps, with all observers.

Needs the `triton` wheel; no card. A program is held when its result lies within the bound that
rounding explains and nothing is reported; what is refused is not checked; anything else is wrong.

Usage: python scripts/verify/kernels_survey.py [--targets gfx1100,gfx1201,gfx942] [--warps 1,4,8]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "kernels"), str(ROOT / "src")]

import cases  # noqa: E402

from reefwatch import isa  # noqa: E402

HELD = 97.0  # percent
#: scan findings that would be false on these programs
FALSE = ("missing wait on a path", "software wait", "reads at a barrier",
         "acquire without invalidate", "LDS")  # fmt: skip


def verdict(name: str, target: str, warps: int) -> tuple[str, str]:
    import survey

    built = survey.build(name, target, warps)
    shared = built.metadata.shared
    case = cases.CASES[name](np.random.default_rng(5))
    program = isa.parse(built.asm["amdgcn"])
    result = isa.run(program, target, case.grid, case.args, shared=shared)
    if result.refused:
        return "not checked", "; ".join(f"{r.mnemonic}: {r.reason}" for r in result.refused)
    if result.stopped:
        return "wrong", result.stopped
    share = cases.worst(case, result.buffers[case.out], target)
    if share > 1:
        return "wrong", f"error {share:.2f} times the bound"
    found = [f for f in isa.scan(program, target, shared=shared).found if f.kind in FALSE]
    told = [f"{seen.kind} at line {seen.line}" for seen in [*result.reports, *found]]
    return ("false report", "; ".join(told)) if told else ("held", "")


def main() -> int:
    import triton

    parser = argparse.ArgumentParser()
    parser.add_argument("--targets", default="gfx1100,gfx1201,gfx942")
    parser.add_argument("--warps", default="1,4,8")
    options = parser.parse_args()
    warps = [int(n) for n in options.warps.split(",")]
    print(f"Survey set of {len(cases.CASES)} kernels, Triton {triton.__version__}.\n")
    print(
        "| target | warps | held | not checked | false report | wrong |\n|---|---|---|---|---|---|"
    )
    total: Counter[str] = Counter()
    notes = []
    for target in options.targets.split(","):
        for count in warps:
            here: Counter[str] = Counter()
            for name in cases.CASES:
                what, why = verdict(name, target, count)
                here[what] += 1
                if why:
                    notes.append(f"- {name}, {target}, {count} warps: {what}: {why}")
                print(target, count, name, what, file=sys.stderr)
            total += here
            cells = (here[k] for k in ("held", "not checked", "false report", "wrong"))
            print(f"| {target} | {count} | " + " | ".join(map(str, cells)) + " |", flush=True)
    share = 100 * total["held"] / sum(total.values())
    print(f"\nHeld: {share:.1f} % (bar: {HELD} %), wrong: {total['wrong']} (bar: 0), "
          f"false reports: {total['false report']} (bar: 0).\n")  # fmt: skip
    print("\n".join(notes))
    return 0 if share >= HELD and not total["wrong"] and not total["false report"] else 1


if __name__ == "__main__":
    sys.exit(main())
