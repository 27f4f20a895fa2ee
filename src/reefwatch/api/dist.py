"""`reefwatch dist`: collectives and parallel training, tried and judged."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reefwatch.api.settings import Settings
from reefwatch.core import launch
from reefwatch.core.errors import ReefwatchError, UsageError
from reefwatch.core.record import Record
from reefwatch.core.report import Report

if TYPE_CHECKING:
    from reefwatch.experiments.dist.run import Part

BACKENDS = ("gloo", "nccl")
LEVELS = ("quick", "full")
CODE = "REEFWATCH_DIST_CODE"
"""Names the file into which rank 0 writes the exit code, when `--nproc` started the ranks."""
_GRACE = 8.0


@dataclass(frozen=True)
class Wishes:
    """What is to be tried."""

    backend: str = ""
    level: str = "quick"
    phases: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    collectives: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    model: str = ""
    deadline: float = 30.0
    setup: float = 60.0
    """Seconds for all ranks to meet."""
    seed: int = 0
    """0 draws one."""
    bench: bool = False
    inject: str = ""

    def checked(self) -> Wishes:
        """The same; raises UsageError for unknown words."""
        from reefwatch.data import collectives as known

        _known("backend", (self.backend,) if self.backend else (), BACKENDS)
        _known("level", (self.level,), LEVELS)
        _known("phase", self.phases, known.PHASES)
        _known("dtype", self.dtypes, known.DTYPES)
        _known("collective", self.collectives, known.FORMS)
        if self.model and not Path(self.model.rpartition(":")[0]).is_file():
            raise UsageError(
                f"--model {self.model}: give a file and a function in it, M.py:factory"
            )
        if not self.deadline > 0 or not self.setup > 0:
            raise UsageError("a deadline is a time above 0s")
        return self


def _known(what: str, words: Sequence[str], all_: Sequence[str]) -> None:
    for word in words:
        if word not in all_:
            raise UsageError(f"{word!r} is not a {what} that is known; known: {', '.join(all_)}")


@dataclass
class Told:
    """What became of it, for the process that is to show it."""

    report: Report | None
    """None where another rank shows it."""
    agree: Callable[[int | None], int] = field(default=lambda code: code or 0)
    """Makes the exit code of the one that shows the report that of all; to be called once."""


def quiet() -> None:
    """Keep torch's own lines of C++ from stderr: what they tell is in the report."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "2000")


def take_part(
    wishes: Wishes, out: str | os.PathLike[str] | None, scrub: bool, say: Callable[[str], None]
) -> Told:
    """Take this process's part as one rank of a launch (torchrun, srun, mpirun, accelerate).

    Raises UsageError, ReefwatchError when the ranks do not find each other.
    """
    quiet()
    here = launch.read(os.environ)
    settings = Settings.of(out=out, scrub=scrub)
    folder, header = _place(settings, here)
    loud = say if here.rank == 0 else _silent
    plan = _plan(wishes.checked())
    from reefwatch.experiments.dist.run import Part

    part = Part(here, plan, loud)
    try:
        mine = part.run(header)
        mine = _written(mine, folder, settings.scrub)
        records = part.exchange(mine, _GRACE)
        report = _report(records, folder) if part.shows(records) else None
    except BaseException:
        part.farewell(0.0)
        raise
    return Told(report, lambda code: _ended(part, code))


def _ended(part: Part, code: int | None) -> int:
    agreed = part.agree(code, _GRACE)
    part.farewell(_GRACE)
    return agreed


def start(words: Sequence[str], nproc: int, say: Callable[[str], None], setup: float = 60.0) -> int:
    """Start `nproc` ranks of `reefwatch dist` here with torchrun; the exit code that rank 0 gave.

    Nothing of it is left running. Raises ReefwatchError when no rank came to a verdict.
    """
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise UsageError("torch is not installed in this Python")
    quiet()
    with tempfile.TemporaryDirectory(prefix="reefwatch-dist-") as folder:
        code = Path(folder) / "code"
        environ = {
            **os.environ,
            CODE: str(code),
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        }
        command = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
        ]
        command += [str(nproc), "--max-restarts", "0", "-m", "--", "reefwatch", "dist", *words]
        process = subprocess.Popen(
            command, env=environ, stdin=subprocess.DEVNULL, preexec_fn=_bound
        )
        try:
            _await(process, code)
        finally:
            _end(process)
        told = code.read_text() if code.is_file() else ""
        if told.isdigit():
            return int(told)
        raise ReefwatchError(
            "no rank came to a verdict: the launch ended before"
            + f" (torchrun ended with {process.returncode})"
        )


def _bound() -> None:
    from reefwatch.experiments.dist.worker import die_with_parent

    die_with_parent()


def _await(process: subprocess.Popen[bytes], code: Path) -> None:
    """Until the launch ends; a moment longer than the verdict when a rank does not."""
    since: float | None = None
    while process.poll() is None:
        if since is None and code.is_file():
            since = time.monotonic()
        if since is not None and time.monotonic() - since > _GRACE + 4:
            return
        time.sleep(0.05)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what still runs; the ranks die with torchrun, and their workers with them."""
    if process.poll() is None:
        with suppress(OSError):
            process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)


def _plan(wishes: Wishes) -> dict[str, Any]:
    from dataclasses import asdict

    import torch

    given = asdict(wishes)
    backend = wishes.backend or ("nccl" if torch.cuda.is_available() else "gloo")
    if backend == "nccl" and not torch.cuda.is_available():
        raise UsageError("--backend nccl: torch sees no GPU here; --backend gloo needs none")
    device = "cpu" if backend == "gloo" else "cuda"
    seed = wishes.seed or int(
        os.environ.get("TORCHELASTIC_RUN_ID", "1").encode().hex()[:6] or "1", 16
    )
    return {
        **given,
        "backend": backend,
        "device": device,
        "seed": seed,
        "timeout": 4 * wishes.deadline + 60,
    }


def _place(settings: Settings, here: launch.Launch) -> tuple[Path, dict[str, Any]]:
    """(folder of the record, its header)."""
    from datetime import datetime, timezone

    import reefwatch
    from reefwatch.store import folder

    header = {
        "reefwatch": reefwatch.__version__,
        "kind": "dist",
        "run_id": folder.run_id(os.environ),
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "argv": list(sys.argv[1:]),
        "cwd": os.getcwd(),
        "script": "dist",
        "python": sys.version.split()[0],
        "rank": here.rank,
        "world": here.world,
        "local_rank": here.local_rank,
        "pid": os.getpid(),
        "host": os.uname().nodename,
        "options": {},
    }
    return folder.new(settings.out, "dist", here.rank), header


def _written(record: Record, folder: Path, scrub: bool) -> Record:
    """The record with what writing it had to say (a full disk); it stays whole in memory."""
    from reefwatch.store.writer import Writer

    writer = Writer(folder, record.header, scrub)
    for event in record.events:
        writer.event(event.kind, event.data, step=event.step, id=event.id)
    for name, fact in record.facts.items():
        writer.fact(name, fact)
    writer.close()
    return replace(record, remarks=writer.record().remarks)


def _report(records: Sequence[Record], folder: Path) -> Report:
    from reefwatch.api import judging
    from reefwatch.api.session import write

    facts: dict[str, Any] = {"folder": str(folder), "outliers": outliers(records)}
    report = judging.judged("dist", records, facts=facts)
    remarks = list(report.remarks)
    for kind in ("html", "json"):
        try:
            write(kind, folder / f"report.{kind}", report)
        except OSError as error:
            remarks.append(f"report.{kind} could not be written: {error.strerror or error}")
    return replace(report, remarks=tuple(remarks))


def outliers(records: Sequence[Record]) -> list[Mapping[str, Any]]:
    """Hosts and ranks that stand out, for a scheduler: `{"host", "rank", "why"}`."""
    from reefwatch.judge import dist_outliers

    return dist_outliers.of(records)


def _silent(text: str) -> None:
    """What other ranks than the first say."""
