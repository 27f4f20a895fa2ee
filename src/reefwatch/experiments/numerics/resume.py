"""Three runs of an unchanged script: stopped, started again, and never stopped.

1. `stopped` ends before the update that follows its first checkpoint, as if it were killed.
2. `resumed` is started again in the same folder, with the script's own arguments for that.
3. `whole` runs in a folder of its own past the place where the first was stopped.

What the second holds when its first update begins is compared with what the first held when it was
stopped; what follows, with the third.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reefwatch.core.errors import ReefwatchError
from reefwatch.core.fact import Evidence
from reefwatch.core.record import Record, latest
from reefwatch.experiments.numerics import folders

LEAST, MOST = 8, 200
"""Updates after the resumption that are compared, unless asked for otherwise."""
CEILING = 1_000_000
"""Updates that a run is followed for."""


@dataclass(frozen=True)
class Asked:
    """What is asked of one check."""

    argv: tuple[str, ...]
    module: bool = False
    first: tuple[str, ...] = ()
    """Arguments of the stopped run alone."""
    then: tuple[str, ...] = ()
    """Arguments of the resumed run alone."""
    stop_after: int | None = None
    """Updates after which the first run is stopped, whether a checkpoint was seen or not."""
    steps: int | None = None
    """Updates after the resumption that are compared."""
    link: tuple[str, ...] = ()
    """Entries of the working folder that are only read: linked, not copied."""


@dataclass(frozen=True)
class Line:
    """What one run left."""

    name: str
    states: dict[int, Mapping[str, Any]]
    """Rows by number of the update that they stand before."""
    saves: tuple[Mapping[str, Any], ...]
    sets: tuple[Mapping[str, Any], ...]
    code: int
    log: Path

    @property
    def ends(self) -> int:
        """The update that its last row stands before."""
        return max(self.states, default=0)


class Runs:
    """Runs the lines of one check, each in a process of its own."""

    def __init__(
        self,
        asked: Asked,
        out: Path,
        header: Mapping[str, Any],
        read: Callable[[Path], Record],
        say: Callable[[str], None],
    ) -> None:
        self.asked, self.out, self.header = asked, out, dict(header)
        self.read, self.say = read, say
        self.here = Path.cwd()
        folders.weigh(self.here, asked.link)

    def three(self) -> tuple[Line, Line, Line, int]:
        """(stopped, resumed, whole, the update at which the second goes on).

        Raises ReefwatchError when a run fails, or no checkpoint was written.
        """
        asked = self.asked
        with tempfile.TemporaryDirectory(prefix="reefwatch-resume-") as scratch:
            one, two = Path(scratch, "stopped"), Path(scratch, "whole")
            folders.copy(self.here, one, asked.link)
            folders.copy(self.here, two, asked.link)
            plan: dict[str, Any] = {"saved": asked.stop_after is None, "until": asked.stop_after}
            self.say("first run: until its first checkpoint")
            stopped = self._run("stopped", one, asked.first, plan)
            at = _stop(stopped, asked)
            count = asked.steps or min(MOST, max(LEAST, at))
            self.say(f"second run: started again after {at} updates, for {count}")
            plan = {"until": count, "full": range(count + 1)[:3]}
            resumed = self._run("resumed", one, asked.then, plan)
            begins = _begin(stopped, resumed, at)
            self.say(f"third run: not interrupted, {begins + count} updates")
            plan = {"until": begins + count, "full": range(begins, begins + 3)}
            whole = self._run("whole", two, (), plan)
        return stopped, resumed, whole, begins

    def _run(self, name: str, cwd: Path, more: tuple[str, ...], plan: dict[str, Any]) -> Line:
        out, number = self.out / name, 1
        while out.exists():  # of an earlier check with this `--out`
            number += 1
            out = self.out / f"{name}-{number}"
        out.mkdir(parents=True)
        argv = [self._moved(self.asked.argv[0], cwd), *self.asked.argv[1:], *more]
        whole = {
            **plan,
            "full": list(plan.get("full", ())),
            "argv": argv,
            "module": self.asked.module,
            "out": str(out),
            "header": {**self.header, "argv": argv, "kind": "resume run"},
            "most": CEILING,
        }
        path = out / "plan.json"
        path.write_text(json.dumps(whole))
        environ = dict(os.environ)
        own = str(Path(__file__).resolve().parents[3])
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, (own, environ.get("PYTHONPATH"))))
        environ["PWD"] = str(cwd)
        log = out / "log"
        command = [sys.executable, "-m", "reefwatch.experiments.numerics", str(path)]
        with open(log, "wb") as written:
            code = subprocess.run(
                command,
                cwd=cwd,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode
        record = self.read(out)
        _sound(record, name, code, log)
        rows = {e.data["update"]: e.data for e in latest(record.events) if e.kind == "resume.state"}
        kinds = {
            kind: tuple(e.data for e in record.events if e.kind == f"resume.{kind}")
            for kind in ("save", "set")
        }
        return Line(name, rows, kinds["save"], kinds["set"], code, log)

    def _moved(self, script: str, cwd: Path) -> str:
        """The script's copy where it lies in the working folder: it may write beside itself."""
        if self.asked.module:
            return script
        path = Path(os.path.abspath(script))
        if path.is_relative_to(self.here) and (cwd / path.relative_to(self.here)).exists():
            return str(cwd / path.relative_to(self.here))
        return str(path)


def _sound(record: Record, name: str, code: int, log: Path) -> None:
    """Raises ReefwatchError when the script failed, or the watch did."""
    for fact in ("errored.watch", "errored.numerics.resume"):
        failed = record.facts.get(fact)
        if isinstance(failed, Evidence):
            raise ReefwatchError(f"the {name} run could not be followed: {failed.value}")
    if code:
        lines = log.read_text(errors="replace").strip().splitlines()[-3:]
        raise ReefwatchError(f"the {name} run ended with {code}: {' | '.join(lines)} (see {log})")


def _stop(stopped: Line, asked: Asked) -> int:
    """The number of updates that the first run had made. Raises ReefwatchError."""
    if not stopped.states:
        raise ReefwatchError("the script stepped no optimizer of torch's: nothing to resume")
    if asked.stop_after is None and not any(save["update"] for save in stopped.saves):
        raise ReefwatchError(
            f"no checkpoint was seen in the {stopped.ends} updates of the first run: "
            "if it is written by other means than torch.save or safetensors, say --stop-after N"
        )
    return stopped.ends


def _begin(stopped: Line, resumed: Line, at: int) -> int:
    """The update from which the second run went on: that with its weights, else where it stopped.

    A script may go on from an older checkpoint than the last one (the best, the last epoch's).
    """
    first = resumed.states.get(0)
    if first is None or first["weights"] == stopped.states[at]["weights"]:
        return at
    alike = [n for n, row in stopped.states.items() if row["weights"] == first["weights"]]
    return max((n for n in alike if n), default=at)
