"""The bars of the kernel-name rules: labelled names, and a cross-check over their sources.

The cross-check leaves out, in turn, a fifth of the sources of the first table, and every rule that
no labelled name of another source supports (in any table): what is left is tried on the names left
out. A rule is supported when it says a field of a name there. `grammar` keeps the rules of families
whose naming was read in the library's own source; a source is an address, or a whole repository.

    python scripts/verify/precision_names.py
"""

from __future__ import annotations

import argparse
import csv
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from reefwatch.data import entry, kernels
from reefwatch.data.kernels import Family, Kernel, Rule

TABLES = Path(__file__).resolve().parents[2] / "tests" / "data" / "kernel_names"
FIELDS = ("compute_dtype", "matrix_core", "naive")
OLD_WORDS = {"c64": "unknown"}
RIGHT, WRONG, CROSS = 0.95, 0.02, 0.92
Row = dict[str, str]


def rows(text: str) -> list[Row]:
    kept = (line for line in text.splitlines() if not line.startswith("#"))
    found = csv.DictReader(kept, delimiter="\t", quoting=csv.QUOTE_NONE)
    return [{k: OLD_WORDS.get(v, v) for k, v in row.items()} for row in found]


def compare(row: Row, told: Kernel) -> tuple[bool, bool]:
    """(right in all fields, confidently wrong in one)."""
    said = told.as_dict()
    return (
        all(said[field] == row[field] for field in FIELDS),
        any(said[field] not in (row[field], "unknown") for field in FIELDS),
    )


def score(some: Sequence[Row], families: Iterable[Family] | None = None) -> tuple[int, int]:
    """Right, and confidently wrong."""
    known = list(kernels.families() if families is None else families)
    told = [compare(row, kernels.read(row["name"], known)) for row in some]
    return sum(right for right, _ in told), sum(wrong for _, wrong in told)


def supported(some: Sequence[Row], trust_sources: bool) -> list[Family]:
    """The rules that these rows support; a family without any goes as a whole."""
    used: set[int] = set()
    homes: set[str] = set()
    for row in some:
        family = next((f for f in kernels.families() if f.match.search(row["name"])), None)
        if family is None:
            continue
        homes.add(family.name)
        said: set[str] = set()
        for rule in family.rules:
            fields = set(rule.read(row["name"])) - {"role"}
            if fields - said:
                used.add(id(rule))
            said |= fields

    def keeps(family: Family, rule: Rule) -> bool:
        return id(rule) in used or (trust_sources and bool(family.source or rule.source))

    return [
        replace(family, rules=tuple(rule for rule in family.rules if keeps(family, rule)))
        for family in kernels.families()
        if family.name in homes or (trust_sources and family.source)
    ]


def address(row: Row) -> str:
    return row["source"]


def repository(row: Row) -> str:
    found = re.match(r"https://github.com/([^/]+/[^/]+)", row["source"])
    return found[1] if found else row["source"]


def cross(
    tried_on: Sequence[Row],
    everything: Sequence[Row],
    source: Callable[[Row], str],
    seed: int,
    trust_sources: bool,
    folds: int = 5,
) -> tuple[int, int]:
    """Right and confidently wrong over all folds."""
    sources = sorted({source(row) for row in tried_on})
    random.Random(seed).shuffle(sources)
    right = wrong = 0
    for fold in range(folds):
        out = set(sources[fold::folds])
        rest = [row for row in everything if source(row) not in out]
        tried = [row for row in tried_on if source(row) in out]
        one = score(tried, supported(rest, trust_sources))
        right, wrong = right + one[0], wrong + one[1]
    return right, wrong


def by_call(name: str) -> str:
    """The row of a table whose ops have a known dtype of their own, which no rule had a part in.

    Under TF32 what is no product stays fp32.
    """
    some = rows((TABLES / name).read_text(encoding="utf-8"))
    right = wrong = count = 0
    for row in some:
        told, own = kernels.classify(row["name"]), row["op_dtype"]
        if own in ("", "mixed", "unknown") or told.role == "copy":
            continue
        count += 1
        right += told.compute_dtype == own or (own, told.compute_dtype) == ("tf32", "fp32")
        wrong += told.compute_dtype not in (own, "unknown", "fp32" if own == "tf32" else own)
    return line(f"{name}, dtype told against that of the call", count, right, wrong, "", True)


FIRST = re.compile(
    r"(\d+) of (\d+)\s+right \([\d.]+ %\),\s+(\d+)\s+confidently wrong(?=.*first try)", re.DOTALL
)


def first_tries() -> Iterator[tuple[str, int, int, int]]:
    """(file, names, right, confidently wrong) of the sets whose head tells their first try.

    These were written down when the rules met the names; no run can repeat them, since the rules
    were mended on the names afterwards.
    """
    for file in sorted(TABLES.glob("outside*.tsv")):
        lines = file.read_text(encoding="utf-8").splitlines()
        head = " ".join(text.lstrip("# ") for text in lines if text.startswith("#"))
        if found := FIRST.search(head):
            right, names, wrong = map(int, found.groups())
            yield file.name, names, right, wrong


def line(what: str, count: int, right: int, wrong: int, bar: str, met: bool) -> str:
    verdict = "met" if met else "NOT met"
    shares = f"{right} ({right / count:.1%}) | {wrong} ({wrong / count:.1%})"
    return f"| {what} | {count} | {shares} | {bar} | {verdict if bar else ''} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="cross-checks with other folds")
    given = parser.parse_args()
    first = rows(entry("kernel_names.tsv").read_text(encoding="utf-8"))
    print("## Kernel names\n")
    print("| names | rows | right | confidently wrong | bar | |")
    print("|---|---|---|---|---|---|")
    right, wrong = score(first)
    met = wrong == 0 and right == len(first)
    print(line("kernel_names.tsv", len(first), right, wrong, "all, 0", met))
    everything = list(first)
    for file in sorted(TABLES.glob("*.tsv")):
        some = rows(file.read_text(encoding="utf-8"))
        everything += some
        right, wrong = score(some)
        good = right >= RIGHT * len(some) and wrong <= WRONG * len(some)
        met = met and good
        print(line(file.name, len(some), right, wrong, ">= 95 %, <= 2 %", good))
    print(by_call("h200.tsv"))
    print(by_call("h200_more.tsv"))
    print(by_call("tracelens.tsv"))
    for source, trust, bar in (
        (address, True, ">= 92 %"),
        (address, False, ">= 92 %"),
        (repository, True, ">= 92 %"),
        (repository, False, ""),
    ):
        seeds = range(given.seeds)
        worst = min(cross(first, everything, source, seed, trust) for seed in seeds)
        good = worst[0] >= CROSS * len(first)
        met = met and (good or not bar)
        name = f"5 folds by {source.__name__}, {'grammar' if trust else 'names only'}"
        print(line(f"{name}, worst of {given.seeds}", len(first), *worst, bar, good))
    print(
        "\nThe rows above are read by rules that were mended on these names: they guard, and prove"
    )
    print("little. The bar for names from elsewhere (95 % right, 2 % wrong) is for names that no")
    print("rule was written on. First tries, as written down then, which no run can repeat:\n")
    print("| names | rows | right | confidently wrong | bar | |")
    print("|---|---|---|---|---|---|")
    good = True
    for name, count, right, wrong in first_tries():
        good = right >= RIGHT * count and wrong <= WRONG * count
        print(line(f"{name}, first try", count, right, wrong, ">= 95 %, <= 2 %", good))
    met = met and good  # the latest set counts
    print("\nOf all names by library: ", end="")
    count = Counter(kernels.classify(row["name"]).library for row in everything)
    print(", ".join(f"{library} {n}" for library, n in count.most_common()) + ".")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
