"""The same script in several environments, each a process of its own, against one reference."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reefwatch.core.errors import ReefwatchError, UsageError
from reefwatch.core.fact import Evidence
from reefwatch.core.record import Record


@dataclass(frozen=True)
class Environment:
    """One environment to try: as it was named, and its interpreter."""

    name: str
    python: Path


@dataclass(frozen=True)
class Trial:
    """What came of one environment."""

    environment: Environment
    record: Record | None
    why: str = ""
    """Why there is no record."""
    torch: str = ""


def environments(names: Sequence[str]) -> list[Environment]:
    """The interpreters of folders (venvs) or of executables. Raises UsageError."""
    made = []
    for name in names:
        path = Path(os.path.abspath(os.path.expanduser(name)))
        if path.is_dir():
            path = path / "bin" / "python"
        if not path.is_file() or not os.access(path, os.X_OK):
            raise UsageError(f"--envs: {name} is no environment: there is no {path} to be run")
        made.append(Environment(name, path))
    if not made:
        raise UsageError("--envs: name at least one environment, oldest first")
    return made


def tried(
    environment: Environment,
    plan: Mapping[str, Any],
    out: Path,
    read: Callable[[Path], Record],
) -> Trial:
    """Run the plan's script in an environment; what it left."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "plan.json"
    path.write_text(json.dumps({**plan, "out": str(out)}))
    environ = dict(os.environ)
    own = str(Path(__file__).resolve().parents[3])
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, (own, environ.get("PYTHONPATH"))))
    command = [str(environment.python), "-m", "reefwatch.experiments.numerics", str(path)]
    with open(out / "log", "wb") as log:
        code = subprocess.run(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    lines = (out / "log").read_text(errors="replace").strip().splitlines()
    if code:
        said = lines[-1] if lines else "it said nothing"
        return Trial(environment, None, f"ended with {code}: {said}")
    try:
        record = read(out)
    except ReefwatchError as error:
        return Trial(environment, None, str(error))
    fact = record.fact("env.torch")
    value = fact.value if isinstance(fact, Evidence) else {}
    version = str(value.get("version", "")) if isinstance(value, Mapping) else ""
    return Trial(environment, record, "", version)


def first_that_leaves(
    candidates: Sequence[Environment],
    leaves: Callable[[Environment], bool | None],
    every: bool = False,
) -> Environment | None:
    """The first environment that leaves the reference; None when none does.

    `leaves` tells of one (None: it could not be tried, and is passed over). The search halves,
    as if what has left stayed away; with `every` all are tried, in order.
    """
    left = list(candidates)
    if every:
        told = [(one, leaves(one)) for one in left]
        return next((one for one, away in told if away), None)
    found: Environment | None = None
    at = len(left) - 1  # the last first: where it holds, nothing is to be searched
    while left:
        one = left[at]
        away = leaves(one)
        if away is None:
            del left[at]
        elif away:
            found, left = one, left[:at]
        else:
            left = left[at + 1 :]
        at = len(left) // 2 if found is not None else len(left) - 1
    return found
