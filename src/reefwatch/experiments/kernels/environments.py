"""An environment for each Triton version: a folder with that wheel alone, filled by pip once.

The process of a version finds the folder first on its path; torch and all else are those of the
Python that runs Reefwatch. Triton's own cache is kept per version too.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from reefwatch.core.errors import UsageError

_VERSION = re.compile(r"\d+(\.\d+){0,3}([a-z.+-]\w*)*")


@dataclass(frozen=True)
class Environment:
    """Where one Triton version is found; `folder` is None for the one that is installed here."""

    asked: str
    folder: Path | None = None
    failed: str = ""
    """Why there is none."""

    def variables(self, cache: Path) -> dict[str, str]:
        """The variables of its process."""
        made = dict(os.environ)
        own = str(Path(__file__).resolve().parents[3])
        parts = [str(self.folder)] if self.folder else []
        made["PYTHONPATH"] = os.pathsep.join(
            [*parts, own, *filter(None, [made.get("PYTHONPATH", "")])]
        )
        made["TRITON_CACHE_DIR"] = str(cache / f"compiled-{self.asked}")
        made["TRITON_HIP_LLD_PATH"] = "/bin/true"  # nothing is linked
        for name in ("TRITON_INTERPRET", "TRITON_DEFAULT_BACKEND"):
            made.pop(name, None)
        made["OMP_NUM_THREADS"] = made.get("OMP_NUM_THREADS", "1")
        return made


def home() -> Path:
    """Where environments are kept: `$REEFWATCH_TRITON`, else the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("REEFWATCH_TRITON") or Path(base) / "reefwatch" / "triton")


def check(asked: str) -> str:
    """The version as asked. Raises UsageError for what cannot be one."""
    if not _VERSION.fullmatch(asked):
        raise UsageError(f"--triton {asked}: not a version such as 3.7 or 3.7.1")
    return asked


def here() -> str:
    """The version that is installed here, "" for none."""
    try:
        return metadata.version("triton")
    except metadata.PackageNotFoundError:
        return ""


def find(asked: str, say: Callable[[str], None]) -> Environment:
    """The environment of a version, made when it is not there yet. Never raises."""
    if not asked or _matches(here(), asked):
        return Environment(asked or here())
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    made = _made(asked, tag)
    if made is not None:
        return Environment(asked, made)
    folder = home() / f"{asked}-{tag}"
    say(f"triton {asked}: installing into {folder}")
    failed = _install(asked, folder)
    return Environment(asked, None, failed) if failed else Environment(asked, folder)


def _matches(version: str, asked: str) -> bool:
    return version == asked or version.startswith(asked + ".")


def _made(asked: str, tag: str) -> Path | None:
    """A folder that is filled already: of this version, or the newest of this minor release."""
    found = [
        folder for folder in home().glob(f"*-{tag}") if (folder / "triton" / "__init__.py").exists()
    ]
    fitting = [one for one in found if _matches(one.name.rpartition("-")[0], asked)]
    return max(fitting, key=lambda one: _order(one.name), default=None)


def _order(name: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", name.rpartition("-")[0])]


def _install(asked: str, folder: Path) -> str:
    """Install the wheel; why it could not be, else ""."""
    exact = asked.count(".") >= 2
    wanted = f"triton=={asked}" if exact else f"triton=={asked}.*"
    partial = folder.with_name(folder.name + ".partial")
    command = [
        *(sys.executable, "-m", "pip", "install", "--no-deps", "--only-binary", ":all:"),
        *("--quiet", "--disable-pip-version-check", "--upgrade", "--target", str(partial), wanted),
    ]
    try:
        partial.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=1800, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"triton {asked} could not be installed: {error}"
    if done.returncode:
        told = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        why = told[-1].removeprefix("ERROR: ") if told else f"pip ended with {done.returncode}"
        return f"triton {asked} could not be installed: {why[:300]}"
    partial.replace(folder)
    return ""
