"""The bars of the lock: each kind of change with its grade, no change without a finding, and what
a second look at this very environment reads.

    python scripts/verify/machine_lock.py
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from reefwatch.api import lock
from reefwatch.core.report import ExitPolicy, exit_code
from reefwatch.store import lock as store
from tests.machine.locked import Machine
from tests.machine.test_lock import ALSO, CHANGES, CODE, told


def change(name: str, folder: Path) -> tuple[str, bool]:
    """One change of a made-up machine, as the lock sees it."""
    act, grade, what = CHANGES[name]
    machine = Machine(folder)
    path = folder / "a.lock"
    lock.lock(path, machine.freeze())
    silent = not told(lock.check(path, frozen=machine.freeze()))
    act(machine)
    report = lock.check(path, frozen=machine.freeze())
    found = told(report)
    besides = ALSO.get(name, set())
    right = {code: [n for n in names if n not in besides] for code, names in found.items()}
    exits = exit_code(report, ExitPolicy())
    met = silent and right == {CODE[grade]: [what]} and exits == (0 if grade == "nothing" else 3)
    said = "; ".join(f"{code}: {', '.join(names)}" for code, names in found.items())
    return f"| {name} | {grade} | {said} | {exits} | {'yes' if met else 'NO'} |", met


def here(folder: Path) -> tuple[list[str], bool]:
    """This environment, three times."""
    first = lock.here()
    second = lock.here()
    third = lock.here(paranoid=True)
    path = folder / "here.lock"
    lock.lock(path, first)
    quiet = not told(lock.check(path, frozen=second)) and not told(lock.check(path, frozen=third))
    rows = [
        f"| {name} | {one.files['read']} | {one.files['known']} |"
        for name, one in (("first look", first), ("second", second), ("--paranoid", third))
    ]
    things = sum(len(part) for name, part in first.sections.items() if name != "unknown")
    rows.append(f"| things locked | {things} | |")
    met = quiet and second.files["read"] == 0 and third.files["known"] == 0
    return rows, met


def main() -> int:
    print("## Lock\n")
    print("| change | grade | named | exit | met |\n| --- | --- | --- | --- | --- |")
    every = True
    with tempfile.TemporaryDirectory() as made:
        os.environ["XDG_CACHE_HOME"] = str(Path(made) / "cache")
        for number, name in enumerate(CHANGES):
            row, met = change(name, Path(made) / str(number))
            every = every and met
            print(row, flush=True)
        sections = {what.partition(".")[0] for _, _, what in CHANGES.values()}
        missing = set(store.SECTIONS) - sections - {"unknown"}
        print(f"\nKinds of things that no change was made to: {', '.join(missing) or 'none'}.\n")
        print("This environment:\n\n| look | files read | recognised |\n| --- | --- | --- |")
        rows, met = here(Path(made))
        print("\n".join(rows))
    return 0 if every and met and not missing else 1


if __name__ == "__main__":
    sys.exit(main())
