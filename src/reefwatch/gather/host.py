"""The host: files, environment and programs of this machine, or of a captured tree.

A read never raises: what cannot be read is an Unknown that says why. The functions used here are
kept at import, so that a script that replaces `open` or `os.read` neither sees nor disturbs us.
"""

from __future__ import annotations

import errno
import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import close as _close
from os import environ as _environ
from os import listdir as _listdir
from os import open as _open
from os import read as _read
from os import readlink as _readlink
from pathlib import PurePosixPath
from types import MappingProxyType

from reefwatch.core.fact import Unknown

_LIMIT = 1 << 20
_WORDS = {
    errno.ENOENT: "there is no {path}",
    errno.ENOTDIR: "there is no {path}",
    errno.EACCES: "{path} may not be read by this user",
    errno.EPERM: "{path} may not be read by this process",
}


@dataclass(frozen=True)
class Ran:
    """What a program answered."""

    code: int
    out: str
    err: str


class Host(ABC):
    """What instruments may ask of a machine. Paths are absolute, with `/` between parts."""

    @property
    @abstractmethod
    def environ(self) -> Mapping[str, str]:
        """The environment variables."""

    @abstractmethod
    def read_bytes(self, path: str) -> bytes | Unknown:
        """The first MiB of a file as it is."""

    @abstractmethod
    def names(self, folder: str) -> tuple[str, ...]:
        """Names in a folder, numbers in numeric order; empty when it cannot be listed."""

    @abstractmethod
    def target(self, path: str) -> str | Unknown:
        """Where a symbolic link points to, as an absolute path."""

    @abstractmethod
    def run(self, argv: Sequence[str], timeout: float = 10.0) -> Ran | Unknown:
        """What a program answers; Unknown when it is not there or takes more than `timeout` s."""

    def read(self, path: str) -> str | Unknown:
        """The text of a file, without NUL padding and outer blanks. An empty file is Unknown.

        A sysfs attribute whose read failed is often captured as an empty file, and a copied page
        is padded with NUL bytes; neither is a value.
        """
        raw = self.read_bytes(path)
        if isinstance(raw, Unknown):
            return raw
        text = raw.replace(b"\0", b"").decode(errors="replace").strip()
        return text if text else Unknown(f"{path} is empty")

    def find(self, pattern: str) -> tuple[str, ...]:
        """Paths that match a pattern with `*` within one part, numbers in numeric order."""
        found = [""]
        for part in PurePosixPath(pattern).parts[1:]:
            if "*" in part:
                wanted = re.compile(".*".join(map(re.escape, part.split("*"))))
                found = [
                    f"{folder}/{name}"
                    for folder in found
                    for name in self.names(folder or "/")
                    if wanted.fullmatch(name)
                ]
            else:
                found = [f"{folder}/{part}" for folder in found]
        return tuple(path for path in found if self.exists(path))

    def exists(self, path: str) -> bool:
        """True when the folder that should hold `path` lists it."""
        folder, _, name = path.rpartition("/")
        return name in self.names(folder or "/")


class LiveHost(Host):
    """The machine that runs this."""

    @property
    def environ(self) -> Mapping[str, str]:
        return MappingProxyType(dict(_environ))

    def read_bytes(self, path: str) -> bytes | Unknown:
        return _bytes_of(path, path)

    def names(self, folder: str) -> tuple[str, ...]:
        return _names_in(folder)

    def target(self, path: str) -> str | Unknown:
        return _link_of(path, path)

    def run(self, argv: Sequence[str], timeout: float = 10.0) -> Ran | Unknown:
        import subprocess

        try:
            done = subprocess.run(
                list(argv),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout,
                check=False,
                text=True,
                errors="replace",
            )
        except FileNotFoundError:
            return Unknown(f"there is no program {argv[0]}")
        except subprocess.TimeoutExpired:
            return Unknown(f"{argv[0]} did not answer in {timeout:g} s")
        except OSError as error:
            return Unknown(f"{argv[0]} could not be started ({_symbol(error)})")
        return Ran(done.returncode, done.stdout, done.stderr)


class ReplayedHost(Host):
    """A captured machine: a folder that holds `sys/`, `proc/` and so on.

    Beside them `environ.json` may hold the variables, and `commands.json` a list of
    `{"argv": [...], "code": int, "out": str, "err": str}`. Nothing outside the folder is read.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = os.path.realpath(root)
        variables = self._json("environ.json")
        self._environ = dict(variables) if isinstance(variables, dict) else {}
        commands = self._json("commands.json")
        self._commands = commands if isinstance(commands, list) else []

    @property
    def environ(self) -> Mapping[str, str]:
        return MappingProxyType(self._environ)

    def read_bytes(self, path: str) -> bytes | Unknown:
        here = self._inside(path)
        return here if isinstance(here, Unknown) else _bytes_of(here, path)

    def names(self, folder: str) -> tuple[str, ...]:
        here = self._inside(folder)
        return () if isinstance(here, Unknown) else _names_in(here)

    def target(self, path: str) -> str | Unknown:
        folder = self._inside(os.path.dirname(path))
        if isinstance(folder, Unknown):
            return folder
        return _link_of(os.path.join(folder, os.path.basename(path)), path)

    def run(self, argv: Sequence[str], timeout: float = 10.0) -> Ran | Unknown:
        for row in self._commands:
            if isinstance(row, dict) and row.get("argv") == list(argv):
                return Ran(
                    int(row.get("code", 0)), str(row.get("out", "")), str(row.get("err", ""))
                )
        return Unknown(f"the captured tree has no answer of {argv[0]}")

    def _inside(self, path: str) -> str | Unknown:
        """The path in the folder; Unknown for one that leads out of it, by `..` or by a link."""
        if "\0" in path:
            return Unknown(f"{path!r} is not a path")
        here = os.path.realpath(self.root + os.path.normpath("/" + path))
        if here != self.root and not here.startswith(self.root + os.sep):
            return Unknown(f"{path} leads out of the captured tree")
        return here

    def _json(self, name: str) -> object:
        raw = _bytes_of(os.path.join(self.root, name), name)
        try:
            return None if isinstance(raw, Unknown) else json.loads(raw)
        except ValueError:
            return None


def _bytes_of(path: str, shown: str) -> bytes | Unknown:
    """The file's bytes. Opened non-blocking, so that a FIFO does not hold the run up."""
    try:
        handle = _open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        return _unreadable(shown, error)
    try:
        parts: list[bytes] = []
        while sum(map(len, parts)) < _LIMIT and (part := _read(handle, 1 << 16)):
            parts.append(part)
        return b"".join(parts)[:_LIMIT]
    except OSError as error:
        return _unreadable(shown, error)
    finally:
        _close(handle)


def _names_in(folder: str) -> tuple[str, ...]:
    try:
        return tuple(sorted(_listdir(folder), key=_by_number))
    except (OSError, ValueError):
        return ()


def _link_of(path: str, shown: str) -> str | Unknown:
    try:
        return os.path.normpath(os.path.join(os.path.dirname(shown), _readlink(path)))
    except (OSError, ValueError) as error:
        return _unreadable(shown, error)


def _unreadable(path: str, error: Exception) -> Unknown:
    if isinstance(error, OSError) and error.errno in _WORDS:
        return Unknown(_WORDS[error.errno].format(path=path))
    return Unknown(f"{path} could not be read ({_symbol(error)})")


def _symbol(error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    return errno.errorcode.get(number or 0, type(error).__name__)


def _by_number(name: str) -> tuple[object, ...]:
    """`10` after `2`: KFD nodes, cards and hwmon folders are numbered without leading zeros."""
    return tuple(
        (0, int(part), "") if part.isdecimal() and part.isascii() else (1, 0, part)
        for part in re.split(r"(\d+)", name)
        if part
    )
