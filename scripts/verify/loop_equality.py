"""Watched equals unwatched, over the whole zoo (tests/zoo): a table in Markdown on stdout.

`main(names)` compares those scripts, all of them without a name; it returns 0 when every run was
equal and really looked at, else 1. Progress goes to stderr.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

COMPARER = Path(__file__).parents[2] / "tests" / "zoo" / "compare.py"


def comparer() -> ModuleType:
    """The comparer of the tests."""
    spec = importlib.util.spec_from_file_location("zoo_compare", COMPARER)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(names: list[str] | None = None) -> int:
    zoo = comparer()
    chosen = [animal for animal in zoo.ZOO if not names or animal.name in names]
    found = []
    for number, animal in enumerate(chosen, 1):
        found.append(zoo.compare(animal))
        state = verdict(found[-1])
        print(f"{number}/{len(chosen)} {animal.name}: {state}", file=sys.stderr, flush=True)
    print("\n".join(fragment(found)))
    return 0 if all(verdict(one) == "equal" for one in found) else 1


def verdict(one: Any) -> str:
    """`equal` only when the run was looked at as much as it should."""
    return "**differs**" if one.differences else "**blind**" if one.blind else "equal"


def fragment(found: list[Any]) -> list[str]:
    equal = sum(verdict(one) == "equal" for one in found)
    lines = [
        "## Watched equals unwatched",
        "",
        "Each script runs plain and under `reefwatch run`. Compared, byte for byte: stdout (losses "
        "as hex floats; hashes of weights, gradients, optimizer state and of the random states of "
        "torch, Python and NumPy; number of threads), stderr with its tracebacks, the exit code. "
        "An equality counts only when as many steps as expected were examined and no instrument "
        "failed.",
        "",
        f"{equal} of {len(found)} scripts are equal.",
        "",
        "| script | watched and plain | steps examined | of | exit code |",
        "| --- | --- | ---: | --- | ---: |",
    ]
    for one in found:
        row = (one.animal.name, verdict(one), one.examined, one.steps, one.plain.code)
        lines.append(f"| {' | '.join(map(str, row))} |")
    for one in found:
        for word in one.differences + one.blind:
            lines += ["", f"{one.animal.name}:", "", "```", word, "```"]
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
