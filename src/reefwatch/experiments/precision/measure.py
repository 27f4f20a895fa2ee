"""Runs the script in a process of its own, once or, where a variant fails, again without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reefwatch.core.errors import ReefwatchError
from reefwatch.core.fact import Evidence, Unknown
from reefwatch.core.record import Record
from reefwatch.experiments.precision.variants import ASKED


def measure(
    argv: Sequence[str],
    out: Path,
    header: Mapping[str, Any],
    read: Callable[[Path], Record],
    *,
    module: bool = False,
    claim: str = "",
    rounds: int = 12,
    policy: str = "",
    profile: bool = False,
    signatures: int = 0,
    scrub: bool = True,
    say: Callable[[str], None] = print,
) -> Record:
    """The record of the experiment. What the script prints goes to stderr.

    Raises ReefwatchError when the script fails by itself, before any variant was put on.
    """
    without: list[str] = []
    why = ""
    while True:
        folder = out / f"try-{len(without) + 1}" if without else out
        plan = {
            "argv": list(argv),
            "module": module,
            "out": str(folder),
            "header": dict(header),
            "scrub": scrub,
            "claim": claim,
            "rounds": rounds,
            "without": without,
            "why": why,
            "policy": policy,
            "profile": profile,
            "signatures": signatures,
        }
        code = _child(plan)
        record = read(folder)
        turn = record.fact("precision.turn")
        name = str(turn.value) if isinstance(turn, Evidence) else ASKED
        if code == 0:
            return record
        ended = record.fact("run.exit")
        told = ended.value if isinstance(ended, Evidence) else {}
        why = str(told.get("exception") if isinstance(told, Mapping) else "") or f"exit code {code}"
        if name == ASKED or name in without:
            if isinstance(record.fact("precision.variants"), Unknown):
                raise ReefwatchError(f"the script failed as it is: {why}")
            return replace(record, remarks=(*record.remarks, f"the script ended with {why}"))
        say(f"the variant {name!r} failed ({why}); once more without it")
        without.append(name)


def _child(plan: Mapping[str, Any]) -> int:
    with tempfile.TemporaryDirectory(prefix="reefwatch-") as folder:
        path = Path(folder) / "plan.json"
        path.write_text(json.dumps(plan))
        environ = dict(os.environ)
        own = str(Path(__file__).resolve().parents[3])
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, (own, environ.get("PYTHONPATH"))))
        command = [sys.executable, "-m", "reefwatch.experiments.precision", str(path)]
        return subprocess.run(command, env=environ, stdout=sys.stderr, check=False).returncode
