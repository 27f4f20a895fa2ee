"""The bars of the distributed contract: `make verify-dist` (see scripts/verify/__main__.py).

Parts, which may be named: mutants matrix watched failures, and only when named cost. What a part
tells is kept in `reefwatch-runs/verify-dist` for some hours, so that a run that was interrupted can
be resumed; each table says when and of which commit it is.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import dist_failures

HERE = Path(__file__).resolve().parent
WORLDS = (2, 3, 4)
MUTANTS = {2: 110, 4: 110}
CLEAN = {2: 20, 4: 10}
SHARE = 0.97
STRIDED = {
    "broadcast",
    "scatter",
    "all_to_all_single",
    "all_to_all_single_uneven",
    "all_reduce",
    "reduce",
    "reduce_scatter_uneven",
}
"""Forms that gloo of the installed torch gets wrong, in silence, when tensors are strided."""
_ANSWERED = ("right", "wrong", "unsupported", "skipped")
SILENT = {"dtype", "op"}
"""Calls that do not fit, which it accepts."""


def environ() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}


def tell(text: str) -> None:
    print(f"dist: {text}", file=sys.stderr, flush=True)


def rows_in(folder: str) -> list[dict[str, Any]]:
    """The rows of all ranks in a record's folder."""
    files = Path(folder).glob("rank*.jsonl")
    lines = [line for file in files for line in file.read_text().splitlines()]
    return [json.loads(line)["data"] for line in lines if line.startswith('{"event":"dist.step"')]


def tried(world: int, *words: str) -> tuple[int, list[dict[str, Any]], float]:
    """(exit code, rows of all ranks, seconds) of `reefwatch dist` here."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "reefwatch", "dist", "--nproc", str(world)]
        command += ["--backend", "gloo", "--out", folder, *words]
        begun = time.monotonic()
        told = subprocess.run(command, env=environ(), capture_output=True, text=True, check=False)
        seconds = time.monotonic() - begun
        rows = rows_in(folder)
        if not rows:
            tell(told.stderr[-500:])
        return told.returncode, rows, seconds


def worst(rows: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[str, dict[str, Any]]]:
    """The worst state over the ranks, by phase and step."""
    order = ["skipped", "right", "unsupported", "wrong", "error", "hang", "lost"]
    found: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
    for row in rows:
        key = row["phase"], row["name"]
        if key not in found or order.index(row["state"]) > order.index(found[key][0]):
            found[key] = row["state"], row
    return found


def known(row: dict[str, Any]) -> bool:
    """True for what gloo is known to get wrong."""
    if row["phase"] == "mismatch":
        return row["name"] in SILENT
    if row["phase"] == "matrix":
        return row.get("layout") == "strided" and row["form"] in STRIDED
    return "beyond its range" in row["name"]


def matrix() -> tuple[str, bool]:
    lines = [
        "## Every row right, named wrong, or refused with the backend's own words",
        "",
        "gloo, quick level; wrong are strided "
        f"{', '.join(sorted(STRIDED))}, and calls of other dtype or operation that are accepted.",
        "",
        "| ranks | steps | right | known wrong | newly wrong | refused | other | exit | s | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    every = True
    for world in WORLDS:
        code, told, seconds = tried(world)
        rows = worst(told)
        wrong = [row for state, row in rows.values() if state == "wrong"]
        new = [row for row in wrong if not known(row)]
        states = [state for state, _ in rows.values()]
        other = len(states) - sum(states.count(s) for s in _ANSWERED)
        forms = {row["form"] for row in wrong if row["phase"] == "matrix"}
        silent = {row["name"] for row in wrong if row["phase"] == "mismatch"}
        met = code == 3 and not new and not other and forms == STRIDED and silent == SILENT
        every = every and met
        lines.append(
            f"| {world} | {len(rows)} | {states.count('right')} | {len(wrong) - len(new)} "
            f"| {len(new)} "
            f"| {states.count('unsupported')} | {other} | {code} | {seconds:.0f} | {_met(met)} |"
        )
        tell(f"{world} ranks: {_met(met)}; not known: {[row['name'] for row in new][:4]}")
    return "\n".join(lines), every


def _met(met: bool) -> str:
    return "met" if met else "NOT met"


def launched(
    world: int, *words: str, limit: float = 600.0, **more: str
) -> subprocess.CompletedProcess[str]:
    """torchrun with these words, here."""
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(world), *words]
    return subprocess.run(
        command,
        env={**environ(), **more},
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )


def mutants() -> tuple[str, bool]:
    lines = ["## Mutants by operator, and clean runs", ""]
    every = True
    for world in MUTANTS:
        seed = random.SystemRandom().randrange(1 << 30)
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "bank.json"
            words = (str(out), str(seed), str(MUTANTS[world]), str(CLEAN[world]))
            told = launched(world, str(HERE / "dist_mutants.py"), *words)
            if not out.is_file():
                tell(told.stderr[-800:])
                return "\n".join([*lines, f"the bank of {world} ranks did not end"]), False
            bank = json.loads(out.read_text())
        some, runs = bank["mutants"], bank["clean"]
        telling = [m for m in some if m["tells"]]
        alarms = [alarm for run in runs for alarm in run["alarms"]]
        found = sum(m["found"] for m in some)
        named = sum(m["named"] for m in telling)
        met = found >= SHARE * len(some) and named >= SHARE * len(telling) and not alarms
        met = met and len(some) >= 100
        every = every and met
        lines += [
            f"{world} ranks, seed {seed}: {found} of {len(some)} mutants found "
            f"({found / len(some):.1%}), the rank named in {named} of {len(telling)} where it "
            f"can be told; {len(runs)} clean runs ({sum(r['steps'] for r in runs)} steps) with "
            f"{len(alarms)} false alarms: {_met(met)}.",
            "",
            "| operator | mutants | found | rank named |",
            "| --- | --- | --- | --- |",
        ]
        for operator in sorted({m["operator"] for m in some}):
            of = [m for m in some if m["operator"] == operator]
            can = [m for m in of if m["tells"]]
            lines.append(
                f"| {operator} | {len(of)} | {sum(m['found'] for m in of)} "
                f"| {sum(m['named'] for m in can)} of {len(can)} |"
            )
        missed = [m["name"] for m in some if not m["found"]]
        lines += ["", *(f"Not found: {name}." for name in missed[:5])]
        tell(f"{world} ranks: {found} of {len(some)} found, {named} of {len(telling)} named")
    return "\n".join(lines).rstrip(), every


WATCHED: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    "clean": ((), "", ()),
    "clean-accumulate": ((), "", ()),
    "clean-bn": ((), "", ()),
    "clean-scale": ((), "", ()),
    "clean-fsdp1": ((), "", ()),
    "clean-fsdp2": ((), "", ()),
    "clean-tp": ((), "", ()),
    "clean-zero": ((), "", ()),
    "one-ulp": (("DIST040",), "2.weight", ()),
    "one-ulp-zero": (("DIST040",), "2.weight", ()),
    "buffers": (("DIST046",), "1.running_mean", ()),
    "same-data": (("DIST041",), "same data", ()),
    "skipped-sync": (("DIST040", "DIST042"), "since step 1", ()),
    "scaler": (("DIST040", "DIST043"), "have parted", ()),
    "drift": (("DIST040",), "0.weight", ()),
    "nan": (("LOOP006",), "backward 3 is nan", ()),
    "fewer-batches": (("DIST044",), "rank 1 never came", ("--hang", "2s")),
    "never-comes": (("DIST044",), "rank 1 never came", ("--hang", "2s")),
    "order": (("DIST044",), "(broadcast|never came)", ("--hang", "2s")),
    "shape": (("DIST044",), "(never came|in different collectives)", ("--hang", "2s")),
    "dtype": (("DIST045",), "rank 1: all_reduce 8 int32", ("--strict=dist",)),
    "op": (("DIST045",), "rank 1: all_reduce 8 float32 MAX", ("--strict=dist",)),
}
"""Fault of dist_train.py: the codes that must be there, what must be said, options."""


def watched_run(fault: str) -> tuple[bool, set[str], str]:
    """(met, DIST codes that were told, why not) of one watched run, against one without a watch."""
    codes, words, options = WATCHED[fault]
    program = [str(HERE / "dist_train.py"), fault]
    with tempfile.TemporaryDirectory() as folder:
        watched = ["-m", "reefwatch", "run", "--out", folder, *options]
        told = launched(2, *watched, *program, LIMIT="8", limit=120.0)
        report = reported(Path(folder))
    loud = [o for o in report["outcomes"] if o["verdict"] == "broken"]
    broken = [o for o in loud if o["contract"] == "dist" or o["code"] in codes]
    found = {o["code"] for o in broken} | {"DIST045"} & set(told.stderr.replace(":", " ").split())
    errored = [o["code"] for o in report["outcomes"] if o["verdict"] == "errored"]
    text = json.dumps(broken) + told.stderr
    met = set(codes) <= found and bool(re.search(words, text)) and not errored
    if not codes:
        plain = launched(2, *program, limit=120.0)
        met = met and not found and plain.stdout == told.stdout and told.returncode == 0
        if not met:
            errored.append(f"plain {plain.stdout[-200:]!r}, watched {told.stdout[-200:]!r}")
    said = "; ".join(finding["message"] for one in broken for finding in one["findings"])
    return met, found, "" if met else f"errored {errored}; said {said}; {told.stderr[-300:]}"


def reported(folder: Path) -> dict[str, Any]:
    """The report of a run; of one that was ended by force, from what its records hold."""
    path = folder / "report.json"
    if path.is_file():
        text = path.read_text()
    else:  # NCCL ends the process of a rank whose collective timed out
        command = [sys.executable, "-m", "reefwatch", "report", "--json", str(folder)]
        text = subprocess.run(
            command, env=environ(), capture_output=True, text=True, check=False
        ).stdout
    report: dict[str, Any] = json.loads(text) if text.strip() else {"outcomes": []}
    return report


def watched() -> tuple[str, bool]:
    lines = [
        "## Guards in a watched run, 2 ranks",
        "",
        "A clean run must be silent, and print what it prints without a watch.",
        "",
        "| training or calls | told | |",
        "| --- | --- | --- |",
    ]
    every = True
    for fault in WATCHED:
        met, found, why = watched_run(fault)
        every = every and met
        lines.append(f"| {fault} | {', '.join(sorted(found)) or 'nothing'} | {_met(met)} |")
        tell(f"watched {fault}: {_met(met)} {why}")
    return "\n".join(lines), every


def failures() -> tuple[str, bool]:
    text, met = dist_failures.table(list(dist_failures.SCENARIOS))
    return f"## Failures\n\n{text}", met


def cost() -> tuple[str, bool]:
    lines = [
        "## Cost, 2 ranks",
        "",
        "| level | steps | seconds | wanted |",
        "| --- | --- | --- | --- |",
    ]
    for level, wanted in (("quick", 15), ("full", 90)):
        _, rows, seconds = tried(2, "--level", level)
        lines.append(f"| {level} | {len(worst(rows))} | {seconds:.0f} | near {wanted} |")
        tell(f"{level}: {seconds:.0f} s")
    return "\n".join(lines), True


PARTS = {
    "mutants": mutants,
    "matrix": matrix,
    "watched": watched,
    "failures": failures,
    "cost": cost,
}


KEPT = HERE.parents[1] / "reefwatch-runs" / "verify-dist"
FRESH = 4 * 3600.0


def part_of(name: str, anew: bool) -> tuple[str, bool]:
    """The table of one part: measured now, or a short while ago."""
    file = KEPT / f"{name}.json"
    if not anew and file.is_file() and time.time() - file.stat().st_mtime < FRESH:
        told = json.loads(file.read_text())
        tell(f"{name}: taken over, measured {told['when']}")
    else:
        command = ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        begun = time.monotonic()
        text, met = PARTS[name]()
        when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        load = f"{os.getloadavg()[2]:.0f} processes wanted the {os.cpu_count()} cores"
        when = f"{when}, commit {commit}, {time.monotonic() - begun:.0f} s, {load}"
        told = {"text": text, "met": met, "when": when}
        KEPT.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(told))
    return f"{told['text']}\n\nMeasured {told['when']}.\n", bool(told["met"])


def main(words: list[str]) -> int:
    every = True
    for name in words or [name for name in PARTS if name != "cost"]:
        text, met = part_of(name, bool(words))
        every = every and met
        print(text, flush=True)
    return 0 if every else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
