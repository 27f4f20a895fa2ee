"""Where a run's record goes, and how the processes of one launch come to the same folder.

They may start seconds apart, on several nodes, with or without a common disk, and the launch before
may have had the same port and the same lack of a name. What they share is the environment that the
launcher gives; from it comes the launch's key, and a file `.launch` beside the records says which
folder the processes with that key are using. It is read and written under a lock, so that the first
one decides and the others follow. Nodes without a common disk make folders of their own, with the
same run id; `reefwatch report A B` puts them together.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reefwatch.core import launch
from reefwatch.core.errors import UsageError

BASE = "reefwatch-runs"
_WINDOW = 600.0
"""Seconds within which the processes of one launch start."""

_LAUNCH_NAMES = (
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "MASTER_ADDR",
    "MASTER_PORT",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "PMIX_NAMESPACE",
    "OMPI_MCA_ess_base_jobid",
    "PBS_JOBID",
    "LSB_JOBID",
)


def run_id(environ: Mapping[str, str]) -> str:
    """The same in every process of a launch. Launches without a name of their own may share it."""
    world = launch.read(environ).world
    if world == 1:
        return f"{_now()}-{os.urandom(4).hex()}"
    said = [f"{name}={environ.get(name, '')}" for name in _LAUNCH_NAMES]
    key = hashlib.sha256("\n".join([*said, str(world)]).encode(errors="surrogateescape"))
    return key.hexdigest()[:16]


def new(out: Path | None, script: str, rank: int, environ: Mapping[str, str] | None = None) -> Path:
    """The folder for this process's record: `reefwatch-runs/<time>-<script>/`, or `out`.

    An earlier record in `out` is kept: it moves to `out/earlier-1` and so on. Where nothing can be
    made the folder is returned all the same; the Writer says so and goes elsewhere.
    Raises UsageError when `out` is a file.
    """
    if out is not None and os.path.exists(out) and not os.path.isdir(out):
        raise UsageError(f"--out {out}: a file, not a folder")
    environ = os.environ if environ is None else environ
    name = f"{_now()}-{_stem(script)}"
    base = Path(BASE) if out is None else out
    try:
        base = base.absolute()
        base.mkdir(parents=True, exist_ok=True)
        if out is None:
            _leave_out_of_git(base)
        if launch.read(environ).world == 1:
            return _numbered(base, name) if out is None else _cleared(base)
        with _table(base / ".launch") as launches:
            return _join(launches, run_id(environ), rank, base, None if out else name)
    except OSError:
        return base / name if out is None else base


def _join(launches: dict[str, Any], key: str, rank: int, base: Path, name: str | None) -> Path:
    """The folder that the others of this launch use, or a new one that they will find."""
    host = hashlib.sha256(os.uname().nodename.encode(errors="surrogateescape")).hexdigest()[:12]
    known = launches.get(key)
    if known is None or not _still_starting(known, rank, host):
        folder = _cleared(base) if name is None else _numbered(base, name)
        known = {"folder": folder.name, "time": time.time(), "ranks": {}}
    known["ranks"][str(rank)] = [host, os.getpid()]
    launches[key] = known
    return base if name is None else base / str(known["folder"])


def _still_starting(known: Mapping[str, Any], rank: int, host: str) -> bool:
    """True when a launch of that key is one that this rank may belong to."""
    if str(rank) in known["ranks"] or not -60 < time.time() - known["time"] < _WINDOW:
        return False
    here = [pid for where, pid in known["ranks"].values() if where == host]
    return not here or any(map(_lives, here))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@contextmanager
def _table(path: Path) -> Iterator[dict[str, Any]]:
    """The launches by key, locked while they are looked at and changed. Raises OSError."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    with os.fdopen(fd, "r+", encoding="utf-8", errors="replace") as file:
        _lock(file.fileno())
        try:
            launches = json.loads(file.read())
            recent = {
                key: known
                for key, known in launches.items()
                if time.time() - known["time"] < _WINDOW and isinstance(known["ranks"], dict)
            }
        except (ValueError, KeyError, TypeError, AttributeError):
            recent = {}
        yield recent
        file.seek(0)
        file.truncate()
        json.dump(recent, file)


def _lock(fd: int) -> None:
    try:
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_EX)
    except (ImportError, OSError):
        return  # a disk without locks: two first ones at the same moment may then part ways


def _numbered(base: Path, name: str) -> Path:
    """A new folder of that name, or with `-2`, `-3` and so on. Raises OSError."""
    for number in range(1, 10_000):
        folder = base / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(f"{base / name} and its numbers are all taken")


def _cleared(folder: Path) -> Path:
    """The folder, with what an earlier run left in it moved to `earlier-<n>`."""
    old = [path for path in folder.iterdir() if _OURS.fullmatch(path.name)]
    if old:
        aside = _earlier(folder)
        for path in old:
            path.rename(aside / path.name)
    return folder


def _earlier(folder: Path) -> Path:
    number = 1
    while (aside := folder / f"earlier-{number}").exists():
        number += 1
    aside.mkdir()
    return aside


_OURS = re.compile(r"rank\d+\.(?:jsonl|tensors|error)|report\.\w+|spawned-\d+")
"""What a run leaves in its folder: ranks, reports, and the folders of children that it spawned."""


def _leave_out_of_git(base: Path) -> None:
    ignore = base / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")


def _stem(script: str) -> str:
    """The script's name as part of a folder's: `train` of `/home/x/train.py`."""
    name = re.sub(r"\.pyw?$", "", re.split(r"[/\\]", script.rstrip("/\\"))[-1])
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("._")[:40] or "session"


def _now() -> str:
    return time.strftime("%Y%m%d-%H%M%S")
