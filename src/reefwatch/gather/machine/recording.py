"""A host that notes what is read of it, so that the same can be replayed elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from reefwatch.core.fact import Unknown
from reefwatch.data.tables import Tables
from reefwatch.gather.host import Host, Ran
from reefwatch.gather.machine import access, variables, wheels
from reefwatch.gather.machine.replay import manifest

_IDS = re.compile(rb"^((?:unique|hive)_id) (\d+)$", re.MULTILINE)
_OEM = re.compile(rb"^(platform_(?:oem|id)) \d+$", re.MULTILINE)
_UUID = re.compile(r"GPU-([0-9a-fA-F]{16})")
_MORE = ("container",)
_PUBLIC = re.compile(
    r"/(?:usr|lib\d*|bin|dev|proc|sys|etc)(?:/|$)|/opt/(?:rocm|amdgpu)[^/]*(?:/|$)|/tmp/?$"
)
_LOOKED_FOR = re.compile(r"rocm|core-|libamdhip64|.*gfx|_C|libbitsandbytes|libtorch_(?:hip|cuda)")
"""Of folders of the system and of packages only these names are told."""


class RecordingHost(Host):
    """One machine, with a memory. Site folders get names of their own: their paths tell users."""

    def __init__(self, host: Host, tables: Tables) -> None:
        self._host, self._tables = host, tables
        self.recorded = host
        self._files: dict[str, bytes] = {}
        self._refused: dict[str, str] = {}
        self._names: dict[str, tuple[str, ...]] = {}
        self._targets: dict[str, str] = {}
        self._there: set[str] = set()
        self._ran: list[dict[str, object]] = []
        self._ids: dict[int, int] = {}

    @property
    def environ(self) -> Mapping[str, str]:
        return self._host.environ

    def read_bytes(self, path: str) -> bytes | Unknown:
        raw = self._host.read_bytes(path)
        if isinstance(raw, Unknown):
            self._refused[path] = raw.reason
        else:
            self._files[path] = raw
        return raw

    def names(self, folder: str) -> tuple[str, ...]:
        names = self._host.names(folder)
        self._names[folder] = names
        return names

    def exists(self, path: str) -> bool:
        there = self._host.exists(path)
        if there:
            self._there.add(path)
        return there

    def target(self, path: str) -> str | Unknown:
        target = self._host.target(path)
        if not isinstance(target, Unknown):
            self._targets[path] = target
        return target

    def run(self, argv: Sequence[str], timeout: float = 10.0) -> Ran | Unknown:
        ran = self._host.run(argv, timeout)
        if not isinstance(ran, Unknown):
            out = "\n".join(line for line in ran.out.splitlines() if "amdgpu" in line.lower())
            self._ran.append({"argv": list(argv), "code": ran.code, "out": out, "err": ""})
        return ran

    def entries(self, version: str) -> dict[str, bytes | str]:
        """Path in the capture -> content, or `-> target` for a link. Serial numbers are counted."""
        process, moved = self._process()
        found: dict[str, bytes | str] = {}
        for path, raw in self._files.items():
            found[_moved(self._real(path), moved)] = self._anonymous(path, raw)
        for folder, names in self._names.items():
            site = moved.get(folder, "").startswith("/captured/site-")
            self._list(found, _moved(self._real(folder), moved), folder, names, site)
        for path in self._there:
            found.setdefault(_moved(self._real(path), moved), b"")
        for path, target in self._targets.items():
            found[self._real(path)] = f"-> {target}"
        refused = {_moved(path, moved): reason for path, reason in self._refused.items()}
        found["/capture.json"] = manifest(refused, version).encode()
        if process:
            found["/process.json"] = _json(process)
        found["/environ.json"] = _json(self._variables(moved))
        found["/commands.json"] = _json(self._ran)
        return found

    def _real(self, path: str) -> str:
        """Where a file lies behind the links that were asked for: a link cannot be a folder too."""
        for _ in range(8):
            within = [link for link in self._targets if path.startswith(link + "/")]
            if not within:
                break
            link = max(within, key=len)
            path = self._targets[link] + path[len(link) :]
        return path

    def _process(self) -> tuple[dict[str, Any], dict[str, str]]:
        """(what the process may do, site folder -> its name in the capture)."""
        told = access.read(self._host)
        process = {} if isinstance(told, Unknown) else dict(told)
        python = dict(process.get("python", {}))
        sites = {site: f"/captured/site-{n}" for n, site in enumerate(python.get("sites", ()))}
        python["sites"] = list(sites.values())
        moved = self._own_paths() | sites
        program = str(python.get("executable", ""))
        if program and not _PUBLIC.match(program):
            python["executable"] = f"/captured/bin/{program.rpartition('/')[2]}"
        for folder in process.get("folders", {}).values():
            folder["path"] = _moved(folder["path"], moved)
        binaries = {_moved(path, moved): row for path, row in process.get("binaries", {}).items()}
        return {**process, "python": python, "binaries": binaries} if process else {}, moved

    def _own_paths(self) -> dict[str, str]:
        """Folders that variables name, and what they are called in the capture.

        Those of a system or of a ROCm matter and tell nothing; others tell of people and projects.
        """
        found: dict[str, str] = {}
        patterns = variables.patterns(self._tables)
        for name, value in sorted(self._host.environ.items()):
            if any(fnmatchcase(name, pattern) for pattern in patterns):
                for path in re.findall(r"(?<![\w.~])/[^:;,\s'\"]+", value):
                    if not _PUBLIC.match(path):
                        found.setdefault(path.rstrip("/"), f"/captured/path-{len(found)}")
        # a folder before those in it
        return dict(sorted(found.items(), key=lambda pair: -len(pair[0])))

    def _list(
        self,
        found: dict[str, bytes | str],
        shown: str,
        folder: str,
        names: Sequence[str],
        site: bool,
    ) -> None:
        """An empty file stands for a name that was listed and not read."""
        whole = folder.startswith(("/sys/", "/proc/", "/dev/", "/var/lib/dkms"))
        for name in names:
            if not whole and not (_of_ours(name) if site else _LOOKED_FOR.match(name)):
                continue
            found.setdefault(f"{shown.rstrip('/')}/{name}", b"")

    def _variables(self, moved: Mapping[str, str]) -> dict[str, str]:
        patterns = [*variables.patterns(self._tables), *_MORE]
        kept = {}
        for name, value in sorted(self._host.environ.items()):
            if any(fnmatchcase(name, pattern) for pattern in patterns):
                kept[name] = _UUID.sub(self._uuid, _moved(value, moved))
        return kept

    def _anonymous(self, path: str, raw: bytes) -> bytes:
        """Serial numbers of cards become 1, 2, ...: equal ones stay equal, 0 stays 0."""
        if path.endswith("/properties"):
            return _IDS.sub(lambda m: m[1] + b" " + str(self._id(int(m[2]))).encode(), raw)
        if path.endswith("/system_properties"):
            return _OEM.sub(rb"\1 0", raw)
        if path.endswith("/unique_id"):
            text = raw.replace(b"\0", b"").strip()
            try:
                return f"{self._id(int(text, 16)):016x}\n".encode()
            except ValueError:
                return b""
        if path == "/proc/cmdline":
            from reefwatch.gather.machine import system

            words = system.command_line(self._host)
            return b"" if isinstance(words, Unknown) else f"scrubbed {' '.join(words)}\n".encode()
        if path == "/proc/cpuinfo":
            return raw[: 1 << 16]
        return raw

    def _id(self, number: int) -> int:
        return self._ids.setdefault(number, len(self._ids) + 1) if number else 0

    def _uuid(self, found: re.Match[str]) -> str:
        return f"GPU-{self._id(int(found[1], 16)):016x}"


def _of_ours(name: str) -> bool:
    """Whether an entry of a site folder is of a package that the probes look at."""
    stem = name.removesuffix(".dist-info").partition("-")[0]
    return wheels.wanted(stem) or name.startswith("_rocm_sdk")


def _moved(path: str, moved: Mapping[str, str]) -> str:
    for site, instead in moved.items():
        path = path.replace(site, instead)
    return path


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()
