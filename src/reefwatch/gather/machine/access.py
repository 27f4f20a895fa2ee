"""What this process may do, and which Python it is: what no file of the machine tells.

A captured machine holds the same in `process.json`; a tree without it leaves it unknown.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from reefwatch.core.fact import Unknown
from reefwatch.gather.host import Host, LiveHost
from reefwatch.gather.machine import elf

FILE = "process.json"
BINARIES = {
    "": ("flash_attn_2_cuda*.so", "causal_conv1d_cuda*.so", "selective_scan_cuda*.so"),
    "torchvision": ("_C*.so", "image*.so"),
    "torchaudio/lib": ("*.so",),
    "xformers": ("_C*.so",),
    "bitsandbytes": ("libbitsandbytes_*.so",),
    "vllm": ("_C*.so", "_rocm_C*.so"),
    "torch/lib": ("libamdhip64.so*", "libhiprtc.so*", "libtorch_hip.so", "libtorch_cuda.so"),
}
"""Folder below site-packages -> the binaries there that are looked into."""
_NODE = {"open": str, "gid": int, "mode": str, "device": str}
_FOLDER = {"path": str, "disk": str, "writable": bool, "free": int, "error": str}
_BINARY = {"needed": [str], "soname": str, "execstack": bool}
SHAPES: dict[str, Any] = {
    "nodes": {"*": _NODE},
    "root": bool,
    "groups": [int],
    "python": {"version": str, "implementation": str, "executable": str, "sites": [str]},
    "libc": str,
    "memlock": (int, type(None)),
    "folders": {"*": _FOLDER},
    "binaries": {"*": _BINARY},
}
"""The parts of `process.json`; one of another shape counts as not there."""


def read(host: Host) -> Mapping[str, Any] | Unknown:
    """The process facts of a live host, or of a captured one."""
    if isinstance(getattr(host, "recorded", host), LiveHost):
        return _live(host)
    raw = host.read_bytes(f"/{FILE}")
    if isinstance(raw, Unknown):
        return Unknown("the captured tree does not tell what the user may open, nor which Python")
    try:
        parsed = json.loads(raw)
    except (ValueError, RecursionError):
        return Unknown(f"{FILE} of the captured tree is no JSON")
    if not isinstance(parsed, dict):
        return Unknown(f"{FILE} holds no mapping")
    return {
        name: parsed[name] for name in SHAPES if name in parsed and _is(parsed[name], SHAPES[name])
    }


def _is(value: Any, shape: Any) -> bool:
    """Whether a value has a shape: a type, `[shape]`, `{"*": shape}` or named, optional fields."""
    if isinstance(shape, list):
        return isinstance(value, list) and all(_is(part, shape[0]) for part in value)
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return False
        every = shape.get("*")
        return all(_is(part, every or shape.get(key, object)) for key, part in value.items())
    if shape is int and isinstance(value, bool):
        return False
    return isinstance(value, shape)


def section(process: Mapping[str, Any] | Unknown, name: str) -> Any:
    """One part of the process facts; Unknown when it is not there or of another shape."""
    if isinstance(process, Unknown):
        return process
    if name not in process:
        return Unknown(f"{FILE} of the captured tree has no {name!r}")
    return process[name]


def _live(host: Host) -> dict[str, Any]:
    nodes = [f"/dev/dri/{name}" for name in host.names("/dev/dri") if name.startswith("renderD")]
    python = _python()
    groups = sorted({*os.getgroups(), os.getegid()})
    return {
        "nodes": {path: _node(path) for path in ("/dev/kfd", *nodes)},
        "root": os.geteuid() == 0,
        "groups": groups,
        "python": python,
        "libc": _libc(),
        "memlock": _memlock(),
        "binaries": _binaries(host, python["sites"]),
        "folders": {name: _folder(path) for name, path in _miopen(host.environ).items()},
    }


def _node(path: str) -> dict[str, Any]:
    """Whether a device opens read-write, tried rather than deduced from groups and modes."""
    told: dict[str, Any] = {}
    try:
        status = os.stat(path)
        told = {"gid": status.st_gid, "mode": f"{stat.S_IMODE(status.st_mode):04o}"}
        told["device"] = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        return {**told, "open": errno.errorcode.get(error.errno or 0, "error")}
    return {**told, "open": "ok"}


def _python() -> dict[str, Any]:
    sites = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    return {
        "version": ".".join(map(str, sys.version_info[:3])),
        "implementation": sys.implementation.name,
        "executable": sys.executable,
        "venv": sys.prefix != sys.base_prefix,
        "sites": list(dict.fromkeys(os.path.abspath(site) for site in sites)),
    }


def _binaries(host: Host, sites: list[str]) -> dict[str, Any]:
    """What the extensions of known packages, and ROCm's oldest libraries, ask of the loader."""
    found = {}
    for site in sites:
        for folder, names in BINARIES.items():
            for name in host.names(f"{site}/{folder}" if folder else site):
                if not any(fnmatchcase(name, pattern) for pattern in names):
                    continue
                path = f"{site}/{folder}/{name}" if folder else f"{site}/{name}"
                told = elf.summary(path)
                if told is not None:
                    found[path] = told
    return found


def _libc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError, AttributeError):
        return ""


def _memlock() -> int | None:
    """Bytes that may be locked; None for no limit."""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def _miopen(environ: Mapping[str, str]) -> dict[str, str]:
    """The folders of MIOpen's user database and kernel cache. Source: MIOpen docs, finddb."""
    home = environ.get("HOME") or os.path.expanduser("~")
    return {
        "miopen database": environ.get("MIOPEN_USER_DB_PATH") or f"{home}/.config/miopen",
        "miopen cache": environ.get("MIOPEN_CUSTOM_CACHE_DIR") or f"{home}/.cache/miopen",
    }


def _folder(path: str) -> dict[str, Any]:
    """Where a folder lies, or would lie: kind of disk, writable, free bytes."""
    here = os.path.abspath(path)
    while not os.path.isdir(here) and here != "/":
        here = os.path.dirname(here)
    try:
        room = os.statvfs(here)
    except OSError as error:
        return {"path": path, "error": errno.errorcode.get(error.errno or 0, "error")}
    return {
        "path": path,
        "disk": _disk(os.path.realpath(here)),
        "writable": os.access(here, os.W_OK | os.X_OK),
        "free": room.f_bavail * room.f_frsize,
    }


def _disk(path: str) -> str:
    """The kind of file system, from the longest mount point above the path."""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
            rows = [line.split() for line in file]
    except OSError:
        return ""
    above = [
        (len(row[1]), row[2])
        for row in rows
        if len(row) > 2 and (path == row[1] or path.startswith(row[1].rstrip("/") + "/"))
    ]
    return max(above, default=(0, ""))[1]
