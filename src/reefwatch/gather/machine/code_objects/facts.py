"""A scan as facts and events of a record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from reefwatch.core.fact import Evidence, Fact, Unknown
from reefwatch.core.record import Event, Record
from reefwatch.data import targets
from reefwatch.gather.machine.code_objects.scan import Scan


def record(found: Scan, gpus: Fact) -> Record:
    """The record of a scan against these GPUs (`codes.gpus`)."""
    names = [name for code in found.codes for name in code.targets]
    amd, nvidia = sum(map(targets.is_amd, names)), sum(n.startswith("sm_") for n in names)
    dark = [f"{code.path}: its targets are not known" for code in found.codes if not code.targets]
    dark += [f"{path}: {why}" for path, why in found.unread]
    said = f"{found.looked} files looked into"
    facts: dict[str, Fact] = {
        "codes.gpus": gpus,
        "codes.scan": Evidence("codes.scan", found.plain(), source="bytes of the files"),
        "codes.amd": _seen("codes.amd", bool(amd), f"no code for an AMD GPU in {said}", dark),
        "codes.nvidia": _seen("codes.nvidia", bool(nvidia), f"no CUDA code in {said}", dark),
        "codes.databases": Unknown(found.unlisted)
        if found.unlisted
        else Evidence(
            "codes.databases", bool(found.databases), source="no kernel database by its name"
        ),
    }
    if not found.looked and not found.databases and not dark:
        facts["codes.amd"] = facts["codes.nvidia"] = Unknown("no file holds code")
    events = [Event("codes.file", asdict(code), id=code.path) for code in found.codes]
    events += [
        Event("codes.database", asdict(one), id=f"{one.package} {one.library}")
        for one in found.databases
    ]
    return Record({"script": found.root}, facts, tuple(events))


def _seen(name: str, seen: bool, otherwise: str, dark: Sequence[str]) -> Fact:
    if not seen and dark:
        more = f" (and {len(dark) - 1} more)" if len(dark) > 1 else ""
        return Unknown(dark[0] + more)
    return Evidence(name, seen, source="" if seen else otherwise)


def given(names: Sequence[str]) -> Fact:
    """GPUs that the user names. Raises ValueError for what is no target."""
    known = [targets.asked(name) for name in names]
    for name, target in zip(names, known, strict=True):
        if target is None:
            raise ValueError(f"{name!r} is no GPU target such as gfx1100")
    return Evidence("codes.gpus", list(dict.fromkeys(filter(None, known))), source="--gpu")


def present(gpus: Fact) -> Fact:
    """The targets of this machine's AMD GPUs, of its inventory (`machine.gpus`)."""
    if isinstance(gpus, Unknown):
        return gpus
    rows: Any = gpus.value
    found = [row["gfx"] for row in rows if isinstance(row.get("gfx"), str)]
    if not found:
        more = " whose target is known" if rows else ""
        return Unknown(f"no AMD GPU{more} is to be seen here; --gpu gfx1100 names one")
    return Evidence("codes.gpus", list(dict.fromkeys(found)), source=gpus.source)
