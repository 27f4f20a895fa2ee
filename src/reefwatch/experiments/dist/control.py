"""The store beside the backend under test: what the ranks tell each other about it.

torchrun's own store where there is one, else one that rank 0 opens. The verdict never travels
through the thing that is tried.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from reefwatch.core.errors import ReefwatchError
from reefwatch.core.launch import Launch

PATIENCE = 5.0
"""Seconds for one question to the store."""
_PORT = 29531


class Gone(ReefwatchError):
    """The store does not answer any more."""


def address(environ: Mapping[str, str], launch: Launch) -> tuple[str, int]:
    """Where the store is, by MASTER_ADDR and MASTER_PORT. Raises ReefwatchError."""
    host, port = environ.get("MASTER_ADDR", ""), environ.get("MASTER_PORT", "")
    if not host and launch.local_world == launch.world:
        host, port = "127.0.0.1", port or str(_PORT)
    if not host or not port.isdigit():
        raise ReefwatchError(
            "the ranks need a place to meet: set MASTER_ADDR and MASTER_PORT to a host and a free "
            "port that all of them reach (torchrun does)"
        )
    return host, int(port)


def hosted(environ: Mapping[str, str]) -> bool:
    """True when the launcher keeps the store."""
    return environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


class Control:
    """One rank's connection. Every question is bounded in time; Gone when the store is dead."""

    def __init__(self, environ: Mapping[str, str], launch: Launch, patience: float) -> None:
        self.rank, self.world = launch.rank, launch.world
        self.host, self.port = address(environ, launch)
        opens = launch.rank == 0 and not hosted(environ)
        if not opens:
            self._reach(patience)
        self._store = self._open(opens, patience)

    def _open(self, opens: bool, patience: float) -> Any:
        from torch.distributed import PrefixStore, TCPStore

        try:
            store = TCPStore(
                self.host,
                self.port,
                None,
                opens,
                timeout=timedelta(seconds=max(1.0, patience)),
                wait_for_workers=False,
            )
        except Exception as error:
            raise ReefwatchError(self._unreachable(_first(error))) from None
        store.set_timeout(timedelta(seconds=PATIENCE))
        return PrefixStore("reefwatch", store)

    def _reach(self, patience: float) -> None:
        """Wait until somebody listens there. Raises ReefwatchError with the system's own reason."""
        until, why = time.monotonic() + patience, "no answer"
        while (left := until - time.monotonic()) > 0:
            try:
                with socket.create_connection((self.host, self.port), timeout=left):
                    return
            except socket.gaierror as error:
                why = f"the name is not known ({error.strerror})"
            except OSError as error:
                why = str(error.strerror or error)
            time.sleep(0.2)
        raise ReefwatchError(self._unreachable(why))

    def _unreachable(self, why: str) -> str:
        return (
            f"rank {self.rank} of {self.world} does not reach the store at {self.host}:{self.port} "
            f"(MASTER_ADDR, MASTER_PORT): {why}"
        )

    def set(self, key: str, value: str) -> None:
        try:
            self._store.set(key, value)
        except Exception as error:
            raise Gone(self._gone(error)) from None

    def first(self, key: str, value: str) -> str:
        """Set a key that nobody has set; what it then holds."""
        try:
            return str(self._store.compare_set(key, "", value).decode())
        except Exception as error:
            raise Gone(self._gone(error)) from None

    def get(self, key: str) -> str | None:
        """The value now, None when there is none."""
        try:
            if not self._store.check([key]):
                return None
            return str(self._store.get(key).decode())
        except Exception as error:
            raise Gone(self._gone(error)) from None

    def wait(self, key: str, seconds: float) -> str | None:
        """The value as soon as it is there, None after so many seconds."""
        until = time.monotonic() + seconds
        while (value := self.get(key)) is None and time.monotonic() < until:
            time.sleep(0.02)
        return value

    def all(
        self, name: str, value: str | None, seconds: float, ranks: Iterable[int] | None = None
    ) -> dict[int, str]:
        """What each rank (or each of `ranks`) says under a name, of those that say it in time."""
        if value is not None:
            self.set(f"{name}/{self.rank}", value)
        until, told = time.monotonic() + seconds, {}
        for rank in sorted(range(self.world) if ranks is None else ranks):
            got = self.wait(f"{name}/{rank}", max(0.0, until - time.monotonic()))
            if got is not None:
                told[rank] = got
        return told

    def _gone(self, error: Exception) -> str:
        return f"the store at {self.host}:{self.port} does not answer any more: {_first(error)}"


def client(host: str, port: int, prefix: str, patience: float) -> Any:
    """A connection of a worker's own, below a prefix."""
    from torch.distributed import PrefixStore, TCPStore

    made = TCPStore(host, port, None, False, timeout=timedelta(seconds=patience))
    return PrefixStore(prefix, made)


def _first(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[0][:200]


def parent_is(pid: int) -> bool:
    """False when the process that started this one is gone."""
    return os.getppid() == pid
