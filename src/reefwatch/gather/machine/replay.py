"""A captured machine: what was read there, and what could not be."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from reefwatch.core.errors import UnreadableRecord
from reefwatch.core.fact import Unknown
from reefwatch.gather.host import Host, LiveHost, Ran, ReplayedHost

MANIFEST = "capture.json"
SCHEMA = 1


class CapturedHost(ReplayedHost):
    """A replayed folder that may hold `capture.json`: then what is not in it was not there."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        super().__init__(root)
        told = self._json(MANIFEST)
        self.manifest: Mapping[str, Any] = told if isinstance(told, dict) else {}
        schema = self.manifest.get("schema")
        if isinstance(schema, int) and schema > SCHEMA:
            raise UnreadableRecord(
                f"{root}: the capture was written by a newer version (schema {schema})"
            )
        told = self._json("environ.json")
        variables = told if isinstance(told, dict) else {}
        self._environ = {k: v for k, v in variables.items() if isinstance(v, str)}
        self.knows_environ = isinstance(told, dict) and len(self._environ) == len(told)
        refused = self.manifest.get("unreadable")
        self._refused = refused if isinstance(refused, dict) else {}

    @property
    def complete(self) -> bool:
        """True when the capture was made by a probe, so that absence means something."""
        return self.manifest.get("schema") == SCHEMA

    def read_bytes(self, path: str) -> bytes | Unknown:
        reason = self._refused.get(path)
        return Unknown(reason) if isinstance(reason, str) and reason else super().read_bytes(path)

    def run(self, argv: Sequence[str], timeout: float = 10.0) -> Ran | Unknown:
        try:
            return super().run(argv, timeout)
        except (ValueError, TypeError):
            return Unknown(f"the captured answer of {argv[0]} is damaged")

    def _json(self, name: str) -> object:
        try:
            return super()._json(name)
        except RecursionError:
            return None


def knows_environ(host: Host) -> bool:
    """Whether the variables of the machine are known; a tree may hold none, or damaged ones."""
    host = getattr(host, "recorded", host)
    return not isinstance(host, ReplayedHost) or getattr(host, "knows_environ", False) is True


def complete(host: Host) -> bool:
    """Whether what is not there is known to be absent, rather than not captured."""
    host = getattr(host, "recorded", host)
    return isinstance(host, LiveHost) or getattr(host, "complete", False) is True


def manifest(unreadable: Mapping[str, str], version: str) -> str:
    """The text of `capture.json`."""
    told = {"schema": SCHEMA, "reefwatch": version, "unreadable": dict(sorted(unreadable.items()))}
    return json.dumps(told, indent=1) + "\n"
