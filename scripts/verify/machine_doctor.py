"""The bars of `reefwatch doctor`: inventories, damaged trees, faults, captures, smoke tests.

python scripts/verify/machine_doctor.py [--seed N] [--damages 400]
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from reefwatch.api import machine
from reefwatch.core.fact import Evidence, Unknown
from reefwatch.core.finding import Severity, Verdict
from reefwatch.data import tables
from reefwatch.experiments import smoke
from reefwatch.gather.machine import inventory
from reefwatch.gather.machine.replay import CapturedHost
from tests.machine import test_doctor, test_hostile, test_inventory, test_machines, test_port
from tests.machine.machines import desktop, write

ROOT = Path(__file__).resolve().parents[2]
_HOW = ("replace", "cut", "remove", "folder", "loop", "outside", "number", "fifo")


def inventories() -> tuple[str, bool]:
    """Every captured tree against the inventory written by hand from it."""
    lines = ["| tree | devices | fields compared | differ |", "| --- | ---: | ---: | ---: |"]
    good = True
    for tree in test_inventory.TREES:
        path = ROOT / "tests/data/machine/expected" / f"{tree}.toml"
        wanted = test_inventory.tomllib.loads(path.read_text())
        facts = inventory.take(CapturedHost(ROOT / "tests/data/sysfs" / tree), tables.load())
        gpus = facts["machine.gpus"]
        found: Any = gpus.value if isinstance(gpus, Evidence) else []
        compared = differ = 0
        for row, gpu in zip(wanted["gpu"], found, strict=False):
            for key in sorted(set(row) | set(gpu)):
                compared += 1
                differ += not _same(gpu, row, key)
        for name in ("kind", "cards", "shown", "hidden_nodes", "kernel"):
            fact = facts[f"machine.{name}"]
            compared += 1
            told = {"unknown": fact.reason} if isinstance(fact, Unknown) else fact.value
            differ += not _same({name: told}, wanted, name)
        differ += abs(len(found) - len(wanted["gpu"]))
        good &= not differ
        lines.append(f"| {tree} | {len(found)} | {compared} | {differ} |")
    return "\n".join(lines), good


def made() -> tuple[str, bool]:
    """Machines made from reports: the inventory written by hand, and what is wrong with each."""
    lines = [
        "| machine | keys compared | differ | told | as written |",
        "| --- | ---: | ---: | --- | --- |",
    ]
    good = True
    for name in sorted(test_inventory.synthetic.MACHINES):
        path = ROOT / "tests/data/machine/synthetic" / f"{name}.toml"
        wanted = test_inventory.tomllib.loads(path.read_text())
        rows = wanted.pop("gpu", [])
        with tempfile.TemporaryDirectory() as folder:
            root = test_inventory.synthetic.MACHINES[name]().write(Path(folder) / name)
            facts = inventory.take(CapturedHost(root), tables.load())
            report = machine.doctor(root=root)
        told = {key: facts[f"machine.{key}"] for key in wanted if key != "hidden_nodes"}
        plain = {key: {"unknown": fact.reason} if isinstance(fact, Unknown) else fact.value
                 for key, fact in told.items()}  # fmt: skip
        fact = facts["machine.gpus"]
        gpus: Any = fact.value if isinstance(fact, Evidence) else []
        pairs = [(plain, wanted, key) for key in plain]
        pairs += [(gpu, row, key) for gpu, row in zip(gpus, rows, strict=False) for key in row]
        differ = sum(not _same(*pair) for pair in pairs) + abs(len(gpus) - len(rows))
        bad = {o.code for o in report.outcomes if o.verdict in (Verdict.BROKEN, Verdict.ERRORED)}
        right = bad == test_inventory.JUDGED[name]
        good &= right and not differ
        said = ", ".join(sorted(bad)) or "nothing"
        lines.append(f"| {name} | {len(pairs)} | {differ} | {said} | {'yes' if right else 'NO'} |")
    return "\n".join(lines), good


def _same(found: Any, wanted: Any, key: str) -> bool:
    if key not in found or key not in wanted:
        return False
    try:
        test_inventory.same(found[key], wanted[key], key)
    except (AssertionError, KeyError, TypeError):
        return False
    return True


def hostile(seed: int, count: int) -> tuple[str, bool]:
    """Files of each tree replaced, cut, removed, turned into folders, loops and pipes."""
    chance = random.Random(seed)
    lines = ["| tree | damaged trees | files damaged | fell over |", "| --- | ---: | ---: | ---: |"]
    good = True
    with tempfile.TemporaryDirectory() as made:
        whole = write(Path(made) / "whole", desktop())
        trees = [ROOT / "tests/data/sysfs" / name for name in test_hostile.NAMES]
        for tree in [*trees, whole]:
            fell, touched = Counter[str](), 0
            files = len(test_hostile.paths(tree))
            for number in range(count):
                copy = Path(made) / f"copy-{tree.name}-{number}"
                shutil.copytree(tree, copy, symlinks=True)
                paths = test_hostile.paths(copy)
                for _ in range(chance.randint(1, 8)):
                    content = chance.choice(_contents(chance))
                    test_hostile.damage(chance.choice(paths), chance.choice(_HOW), content)
                    touched += 1
                try:
                    test_hostile.look(copy)
                except Exception as error:
                    fell[f"{type(error).__name__}: {str(error)[:80]}"] += 1
                shutil.rmtree(copy, ignore_errors=True)
            good &= not fell
            said = f"{sum(fell.values())}" + "".join(f"; {why}" for why in list(fell)[:3])
            lines.append(f"| {tree.name} ({files} files) | {count} | {touched} | {said} |")
            print(f"hostile: {tree.name}", file=sys.stderr, flush=True)
    return f"Seed {seed}.\n\n" + "\n".join(lines), good


def _contents(chance: random.Random) -> list[bytes]:
    number = str(chance.randint(-(10**25), 10**25)).encode()
    return [
        b"", b"\0" * 4096, chance.randbytes(chance.randint(1, 3000)), number, b"9" * 5000,
        b"simd_count " + number + b"\nsimd_per_cu 0\nlocation_id -1\n", b"[" * 3000,
        b'{"nodes": ' + number + b', "python": {"sites": [1, null]}}', "\u0663 \u0661\n".encode(),
    ]  # fmt: skip


def faults() -> tuple[str, bool]:
    """One fault each, planted in a sound desktop."""
    lines = ["| fault | code | found | besides at warning or error |", "| --- | --- | --- | --- |"]
    good = True
    with tempfile.TemporaryDirectory() as made:
        sound = machine.doctor(root=write(Path(made) / "sound", desktop()))
        noise = [o.code for o in sound.outcomes if o.verdict in (Verdict.BROKEN, Verdict.ERRORED)]
        good &= not noise
        lines.append(f"| none | | | {', '.join(noise) or 'none'} |")
        for number, (name, (code, changed, _)) in enumerate(test_machines.FAULTS.items()):
            report = test_machines.fault(Path(made) / str(number), dict(changed))
            broken = {o.code for o in report.outcomes if o.severity > Severity.NOTE}
            good &= code in broken
            besides = ", ".join(sorted(broken - {code})) or "none"
            lines.append(f"| {name} | {code} | {'yes' if code in broken else 'NO'} | {besides} |")
    return "\n".join(lines), good


def captures() -> tuple[str, bool]:
    """A captured machine replays to the inventory of the machine itself."""
    lines = ["| written as | facts | differ |", "| --- | ---: | ---: |"]
    good = True
    for to in ("copy", "copy.tar", "copy.tar.gz"):
        with tempfile.TemporaryDirectory() as made:
            files = desktop(environ={"MIOPEN_FIND_MODE": "2"})
            first, again = test_doctor.captured(files, Path(made), to)
        first["machine.gpus"].value[0]["unique_id"] = "0000000000000001"
        differ = [name for name in again if again[name] != first[name]]
        good &= not differ
        lines.append(f"| {to} | {len(again)} | {', '.join(differ) or 0} |")
    return "\n".join(lines), good


def places() -> tuple[str, bool]:
    """Lines of CUDA code that must be found, and code in which nothing may be."""
    found = 0
    for code, name, line in test_port.PLACES:
        with tempfile.TemporaryDirectory() as made:
            (Path(made) / name).write_text(line + "\n")
            found += code in test_port.broken(Path(made))
    quiet = [("a.py", text) for text in test_port.GUARDED.values()]
    quiet += [*test_port.PLAIN.items(), *test_port.WORDS.items()]
    wrong = 0
    for name, text in quiet:
        with tempfile.TemporaryDirectory() as made:
            (Path(made) / name).write_text(text)
            wrong += bool(test_port.broken(Path(made)))
    total = len(test_port.PLACES)
    text = (
        f"{found} of {total} places found; in {len(quiet)} files that are plain, or have looked at "
        f"the place already, {wrong} findings."
    )
    return text, found == total and not wrong


def smokes() -> tuple[str, bool]:
    """The smoke tests on this machine's devices."""
    facts = smoke.run(180.0, lambda text: print(f"smoke: {text}", file=sys.stderr, flush=True))
    lines = ["| test | device | state | seconds | |", "| --- | --- | --- | ---: | --- |"]
    good = True
    for name in ("import", *smoke.TESTS):
        fact = facts[f"smoke.{name}"]
        rows: Any = fact.value if isinstance(fact, Evidence) else []
        good &= bool(rows)
        for row in rows:
            good &= row["state"] in ("ok", "skipped")
            lines.append(
                f"| {name} | {row['device']} | {row['state']} | {row['seconds']:.1f} "
                f"| {row['detail']} |"
            )
    return "\n".join(lines), good


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--damages", type=int, default=400)
    given = parser.parse_args()
    bars: list[tuple[str, Callable[[], tuple[str, bool]]]] = [
        ("Inventories of captured trees, against those written by hand", inventories),
        ("Machines made from reports", made),
        ("Damaged trees", lambda: hostile(given.seed, given.damages)),
        ("One fault each in a sound machine", faults),
        ("Captures", captures),
        ("Code that moves from CUDA", places),
        ("Smoke tests on this machine", smokes),
    ]
    met = True
    for title, bar in bars:
        begun = time.monotonic()
        text, good = bar()
        met &= good
        print(f"## doctor: {title}\n\n{text}\n\n{'Met' if good else 'NOT met'}, "
              f"{time.monotonic() - begun:.0f} s.\n", flush=True)  # fmt: skip
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
