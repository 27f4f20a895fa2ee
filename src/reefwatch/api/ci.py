"""`ci suite` and `ci init`: an upstream suite under watch; workflow files for ROCm runners."""

from __future__ import annotations

import fnmatch
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reefwatch.core.errors import UsageError

BAD = ("failed", "error")


@dataclass(frozen=True)
class Known:
    """A failure that is known upstream: a pattern of test ids, and where it is told of."""

    test: str
    address: str
    why: str = ""


@dataclass
class Suite:
    """What a suite did, test by test."""

    command: str
    rows: list[dict[str, Any]]
    seconds: float
    pytest_code: int
    versions: dict[str, str] = field(default_factory=dict)
    known: tuple[Known, ...] = ()

    def known_as(self, row: Mapping[str, Any]) -> Known | None:
        """The entry of the known-failures file that covers a test."""
        return next((k for k in self.known if fnmatch.fnmatch(str(row["test"]), k.test)), None)

    @property
    def new_failures(self) -> list[dict[str, Any]]:
        """Tests that failed and are not known to."""
        return [r for r in self.rows if r["outcome"] in BAD and self.known_as(r) is None]

    @property
    def mended(self) -> list[Known]:
        """Known failures of which every test that ran has passed."""
        told = []
        for known in self.known:
            ran = [r for r in self.rows if fnmatch.fnmatch(str(r["test"]), known.test)]
            ran = [r for r in ran if r["outcome"] != "skipped"]
            if ran and all(r["outcome"] == "passed" for r in ran):
                told.append(known)
        return told

    def counts(self, rows: Sequence[Mapping[str, Any]] | None = None) -> Counter[str]:
        """How many tests had each outcome."""
        return Counter(str(r["outcome"]) for r in (self.rows if rows is None else rows))

    def broken(self) -> dict[str, list[dict[str, Any]]]:
        """Findings by code, each with its test."""
        told: dict[str, list[dict[str, Any]]] = {}
        for row in self.rows:
            for finding in row.get("broken", ()):
                told.setdefault(finding["code"], []).append({**finding, "test": row["test"]})
        return dict(sorted(told.items()))

    def plain(self) -> dict[str, Any]:
        """As JSON of all verbs: `schema`, `command`, and the rows."""
        return {
            "schema": 1,
            "command": "ci suite",
            "ran": self.command,
            "seconds": round(self.seconds, 1),
            "pytest_exit": self.pytest_code,
            "versions": self.versions,
            "counts": dict(self.counts()),
            "new_failures": [row["test"] for row in self.new_failures],
            "known_failures": [vars(known) for known in self.known],
            "tests": self.rows,
        }


def known_failures(path: str | os.PathLike[str] | None) -> tuple[Known, ...]:
    """Read `[[failure]]` tables with `test`, `address` and `why`. Raises UsageError."""
    if path is None:
        return ()
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        with open(path, "rb") as file:
            told = tomllib.load(file)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from None
    known = []
    for entry in told.get("failure", []):
        if not isinstance(entry, dict) or not entry.get("test") or not entry.get("address"):
            raise UsageError(f"{path}: each [[failure]] needs `test` and `address`")
        known.append(Known(str(entry["test"]), str(entry["address"]), str(entry.get("why", ""))))
    return tuple(known)


def suite(
    tests: str | os.PathLike[str],
    pytest_args: Sequence[str] = (),
    *,
    known: tuple[Known, ...] = (),
    watch: bool = True,
    exam: float = 2.0,
    python: str = sys.executable,
) -> Suite:
    """Run the tests under `tests` unchanged, against the installed packages.

    pytest runs in the folder that holds the suite's `conftest.py` or its root, with that folder on
    the path. `exam`: seconds that each test may be slowed down by. Raises UsageError when there is
    nothing at `tests`, or pytest could not run it.
    """
    import time

    where = Path(tests).resolve()
    if not where.exists():
        raise UsageError(f"{tests}: there is nothing")
    root = _root(where)
    with tempfile.TemporaryDirectory(prefix="reefwatch-suite-") as folder:
        rows = Path(folder) / "rows.jsonl"
        environ = {
            **os.environ,
            "REEFWATCH_SUITE": str(rows),
            "REEFWATCH_SUITE_WATCH": "1" if watch else "0",
            "REEFWATCH_SUITE_EXAM": str(float(exam)),
            "PYTHONPATH": os.pathsep.join(
                p for p in (str(root), os.environ.get("PYTHONPATH", "")) if p
            ),
        }
        plugin = ["-p", "reefwatch.api.suite_plugin"]
        command = [python, "-m", "pytest", *plugin, str(where), *pytest_args]
        begun = time.monotonic()
        code = subprocess.run(command, cwd=root, env=environ, check=False).returncode
        if code not in (0, 1, 2, 5):
            raise UsageError(f"pytest could not run it: exit {code}")
        lines = rows.read_text(encoding="utf-8").splitlines() if rows.exists() else []
    told = [json.loads(line) for line in lines]
    for row in told:
        row.pop("time", None)
    if not told:
        raise UsageError(f"{tests}: pytest found no test")
    words = [
        "reefwatch ci suite --tests",
        str(tests),
        *(["--", *pytest_args] if pytest_args else []),
    ]
    return Suite(" ".join(words), told, time.monotonic() - begun, code, _versions(), known)


def _root(where: Path) -> Path:
    """The folder from which the suite imports itself: the one above its outermost package."""
    folder = where if where.is_dir() else where.parent
    while (folder / "__init__.py").exists() and folder.parent != folder:
        folder = folder.parent
    return folder


def _versions() -> dict[str, str]:
    from importlib import metadata

    told = {}
    for name in ("reefwatch", "torch", "lightning", "transformers", "triton", "pytest"):
        try:
            told[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return told
