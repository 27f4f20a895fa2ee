"""Seeded faults in machine code: is each one noticed by the result or by an observer?

One mutation operator per kind, over all eligible instructions of the kept programs; sites are
drawn with a fresh seed (printed); of barriers there are few, all are taken. A fault is noticed when
the result leaves its bound, the run stops or is refused, an observer reports, or the scan finds
what it does not find in the unharmed program. Every miss is listed with its line.

Usage: python scripts/verify/kernels_faults.py [--sites N] [--seed S] [--target T] [--kind K]
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "kernels"))
sys.path.insert(0, str(ROOT / "src"))

import cases  # noqa: E402

from reefwatch import isa  # noqa: E402
from reefwatch.isa.launch import read_program  # noqa: E402

DATA = ROOT / "tests" / "data" / "kernels"
Change = Callable[[str, random.Random], str]


def nothing(line: str, rng: random.Random) -> str:
    return "\ts_nop 0"


def _number(line: str, found: re.Match[str], step: int) -> str:
    value = int(found[1], 0) + step
    return line[: found.start(1)] + str(value) + line[found.end(1) :]


def weaker_wait(line: str, rng: random.Random) -> str:
    places = list(re.finditer(r"(?:cnt\(|cnt(?:_dscnt)? |null, )(0x[0-9a-f]+|\d+)", line))
    return _number(line, rng.choice(places), 1) if places else line


def offset(line: str, rng: random.Random) -> str:
    found = re.search(r"offset:(\d+)", line)
    return _number(line, found, 4) if found else f"{line} offset:4"


def shift(line: str, rng: random.Random) -> str:
    found = re.search(r"rev_[bi]\d+(?:_e32|_e64)? v[\d\[\]:]+, (\d+),", line)
    return _number(line, found, 1) if found else line


def compare(line: str, rng: random.Random) -> str:
    turned = {"gt": "lt", "lt": "gt", "ge": "le", "le": "ge", "eq": "ne", "ne": "eq", "ngt": "nlt",
              "nlt": "ngt", "o": "u"}  # fmt: skip
    found = re.search(r"v_cmpx?_([a-z]+)_", line)
    if not found or found[1] not in turned:
        return line
    new = "neq" if found[1] == "eq" and re.search(r"_eq_f\d", line) else turned[found[1]]
    return line[: found.start(1)] + new + line[found.end(1) :]


def lane_step(line: str, rng: random.Random) -> str:
    found = re.search(r"row_(?:shr|shl|xmask):(\d+)", line)
    return (
        line[: found.start(1)] + str(int(found[1]) % 8 + 1) + line[found.end(1) :]
        if found
        else line
    )


def swap_choice(line: str, rng: random.Random) -> str:
    return re.sub(r"(v_cndmask\S* v\d+), ([^,]+), ([^,]+)", r"\1, \3, \2", line, count=1)


def swap_matrices(line: str, rng: random.Random) -> str:
    return re.sub(r"(v_(?:wmma|mfma)\S+ \S+), (\S+), (\S+),", r"\1, \3, \2,", line, count=1)


def other_operation(line: str, rng: random.Random) -> str:
    pairs = (("v_add_f32", "v_sub_f32"), ("v_mul_f32", "v_add_f32"), ("v_max_f32", "v_min_f32"),
             ("v_add_nc_u32", "v_sub_nc_u32"), ("v_and_b32", "v_or_b32"),
             ("v_add_u32", "v_sub_u32"), ("v_or_b32", "v_and_b32"))  # fmt: skip
    for old, new in pairs:
        if f"\t{old}_e" in line:
            return line.replace(old, new)
    return line


#: kind -> (group, which lines, how they change)
KINDS: dict[str, tuple[str, str, Change]] = {
    "delete a barrier": ("barriers", r"^\ts_barrier", nothing),
    "delete a wait": ("waits", r"^\ts_wait(cnt|_\w*cnt)(?!_depctr)", nothing),
    "weaken a wait by one": ("waits", r"^\ts_wait(cnt|_\w*cnt)(?!_depctr)", weaker_wait),
    "EXEC not restored": ("exec", r"^\ts_or_b(32|64) exec(_lo)?, exec", nothing),
    "LDS offset + 4": ("data", r"^\tds_(load|store|read|write)_[bu]", offset),
    "global offset + 4": ("data", r"^\t(global|buffer)_(load|store)_(b32|dword) ", offset),
    "shift by one more": ("data", r"^\tv_(lshl|lshr|ashr)rev_\w+ v\S+, \d+,", shift),
    "comparison turned": ("data", r"^\tv_cmpx?_", compare),
    "lane step": ("data", r"row_(shr|shl|xmask):\d", lane_step),
    "choice swapped": ("data", r"^\tv_cndmask_b32_e", swap_choice),
    "matrix operands swapped": ("data", r"^\tv_(wmma|mfma)", swap_matrices),
    "other operation": ("operations", r"^\tv_(add|mul|max|and|or)_\w+_e", other_operation),
}
#: kinds of scan findings that no kept program has
SCANNED = ("missing wait on a path", "software wait", "reads at a barrier",
           "acquire without invalidate")  # fmt: skip
BARS = {"operations": 0.0, "data": 97.5, "barriers": 95.0, "waits": 80.0, "exec": 75.0}


def sites(target: str) -> dict[str, list[tuple[Path, int]]]:
    """Every eligible line of every program, by kind."""
    found = defaultdict(list)
    for path in sorted(DATA.glob(f"*.{target}.w*.amdgcn")):
        for at, line in enumerate(path.read_text().split("\n")):
            for kind, (_, pattern, change) in KINDS.items():
                if re.search(pattern, line) and change(line, random.Random(0)) != line:
                    found[kind].append((path, at))
    return found


def noticed(path: Path, text: str) -> str:
    """How a program's fault shows: wrong, report, stopped, refused, or nothing."""
    name, target, _, _ = path.name.split(".")
    shared = int(re.match(r"; shared: (\d+)", text)[1])
    program = read_program(text)
    for seed in (5, 6, 7):  # other sizes, other values
        case = cases.CASES[name](np.random.default_rng(seed))
        try:
            result = isa.run(program, target, case.grid, case.args, shared=shared, max_steps=20_000)
        except Exception as error:  # a fault that the engine itself trips over is noticed, and told
            return f"crash {type(error).__name__}"
        if result.refused:
            return "refused"
        if result.stopped:
            return "stopped"
        wrong = cases.worst(case, result.buffers[case.out], target) > 1
        if wrong or result.reports:
            break
    scanned = [found for found in isa.scan(program, target).found if found.kind in SCANNED]
    ways = {"wrong": wrong, "report": bool(result.reports), "scan": bool(scanned)}
    return " + ".join(way for way, hit in ways.items() if hit)


def draw(target: str, count: int, rng: random.Random, only: str) -> list[tuple[str, Path, int]]:
    """Every barrier, and sites of the other kinds as evenly as there are sites."""
    pools = {kind: rng.sample(all_, len(all_)) for kind, all_ in sites(target).items()}
    pools = {kind: pool for kind, pool in pools.items() if not only or kind == only}
    chosen = [("delete a barrier", *site) for site in pools.pop("delete a barrier", [])]
    while len(chosen) < count and any(pools.values()):
        for kind, pool in pools.items():
            if pool and len(chosen) < count:
                chosen.append((kind, *pool.pop()))
    return chosen


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sites", type=int, default=480)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--target", default="gfx1100")
    parser.add_argument("--kind", default="", help="one kind of fault only")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    chosen = draw(options.target, options.sites, rng, options.kind)
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    missed = []
    for number, (kind, path, at) in enumerate(chosen, 1):
        lines = path.read_text().split("\n")
        old, lines[at] = lines[at], KINDS[kind][2](lines[at], rng)
        how = noticed(path, "\n".join(lines))
        seen[kind][how] += 1
        if not how:
            missed.append((kind, path.name, at + 1, old.strip(), lines[at].strip()))
        if number % 20 == 0:
            print(f"{number} of {len(chosen)}", file=sys.stderr)
    return report(options, seen, missed)


def report(options: argparse.Namespace, seen: dict[str, Counter[str]], missed: list) -> int:
    """The tables, and 0 when every bar was met."""
    print(f"## Seeded faults, {options.target}, seed {options.seed}\n")
    print("| fault | seeded | noticed | how |\n|---|---|---|---|")
    groups: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for kind, counts in seen.items():
        total, hit = sum(counts.values()), sum(counts.values()) - counts[""]
        groups[KINDS[kind][0]][0] += total
        groups[KINDS[kind][0]][1] += hit
        how = ", ".join(f"{n} {name}" for name, n in counts.most_common() if name)
        print(f"| {kind} | {total} | {hit} | {how} |")
    print("\n| group | seeded | noticed | bar |\n|---|---|---|---|")
    met = True
    for group, (total, hit) in groups.items():
        share = 100 * hit / total
        met = met and share >= BARS[group]
        bar = f"{BARS[group]} %" if BARS[group] else "none: many sites do not matter"
        print(f"| {group} | {total} | {share:.1f} % | {bar} |")
    print("\n### Not noticed\n\n| fault | program | line | was | became |\n|---|---|---|---|---|")
    for row in missed:
        print("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
