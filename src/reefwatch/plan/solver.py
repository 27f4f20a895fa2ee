"""Wishes and tables in, one consistent set or a named conflict out. No I/O, no clock."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reefwatch.plan import amd, cards, libraries, other, systems
from reefwatch.plan.candidates import Build, builds, kernels, number
from reefwatch.plan.sets import ORDER, Conflict, Plan, Wishes

Table = Mapping[str, Any]


@dataclass(frozen=True)
class Tables:
    """The shipped tables, or others of their shape."""

    gpus: Table
    rocm: Table
    torch: Table
    libs: Table

    @property
    def asof(self) -> str:
        return str(min(table["asof"] for table in (self.gpus, self.rocm, self.torch, self.libs)))


def solve(wishes: Wishes, tables: Tables) -> Plan | Conflict:
    """One set, or the conflict with the nearest set that is possible.

    Nearest gives up one wish: libraries one by one, then the channel and ROCm, the torch, the
    Python, and at last all of these.
    """
    said = _solve(wishes, tables)
    if isinstance(said, Plan):
        return said
    for changed, weaker in _weaker(wishes):
        near = _solve(weaker, tables)
        if isinstance(near, Plan):
            return said.with_nearest(near, changed)
    return said


def _weaker(wishes: Wishes) -> Iterator[tuple[str, Wishes]]:
    for name in wishes.libraries:
        rest = tuple(one for one in wishes.libraries if one != name)
        yield f"without {name}", replace(wishes, libraries=rest)
    if wishes.rocm or wishes.channel:
        yield "with another ROCm or channel", replace(wishes, rocm="", channel="")
    if wishes.torch:
        yield "with another torch", replace(wishes, torch="")
        yield "with another torch and ROCm", replace(wishes, torch="", rocm="", channel="")
    if wishes.python:
        yield "with another Python", replace(wishes, python="")
        yield (
            "with another Python, torch and ROCm",
            replace(wishes, python="", torch="", rocm="", channel=""),
        )
    if wishes.libraries:
        yield "without the libraries", replace(wishes, libraries=())
        yield (
            "without the libraries, with another torch and ROCm",
            replace(wishes, libraries=(), torch="", rocm="", channel=""),
        )
    linux = "" if wishes.os and systems.read(wishes.os) is None else wishes.os
    if linux != wishes.os:
        yield "on Ubuntu 24.04", replace(wishes, os="ubuntu-24.04")
    cpu = replace(wishes, vendor="cpu", gpu="cpu", gfx="", rocm="", channel="", libraries=())
    yield "on the CPU", replace(cpu, os=linux)
    yield "on the CPU with another torch and Python", replace(cpu, os=linux, torch="", python="")


def _solve(wishes: Wishes, tables: Tables) -> Plan | Conflict:
    known = cards.resolve(wishes, tables.gpus)
    if isinstance(known, Conflict):
        return known
    if known.os and systems.read(known.os) is None:
        return Conflict("system", f"{known.os!r} is no Linux system: only Linux is supported")
    if known.python and not re.fullmatch(r"3\.\d{1,2}", known.python):
        return Conflict("python", f"{known.python!r} is no Python such as 3.12")
    if known.vendor != "amd":
        return other.solve(known, tables.torch, tables.libs, tables.asof)
    return _amd(known, tables)


def _amd(wishes: Wishes, tables: Tables) -> Plan | Conflict:
    every = list(builds(tables.torch))
    releases: Sequence[Table] = tables.rocm["release"]
    steps = (
        ("torch", lambda b: amd.torch_fits(b, wishes.torch)),
        ("channel", lambda b: not wishes.channel or b.channel == wishes.channel),
        ("rocm", lambda b: amd.rocm_fits(b, wishes.rocm)),
        ("card", lambda b: bool(kernels(b, wishes.gfx, tables.torch, releases)[0])),
        ("python", lambda b: not wishes.python or not b.python or wishes.python in b.python),
    )
    left = every
    for name, keeps in steps:
        fitting = [build for build in left if keeps(build)]
        if not fitting:
            return amd.refused(name, wishes, left, tables.torch, releases)
        left = fitting
    plans: list[tuple[Build, Plan]] = []
    conflicts: list[Conflict] = []
    for build in left:
        made = amd.assemble(build, wishes, tables.torch, tables.rocm, tables.libs, tables.asof)
        if isinstance(made, Plan):
            plans.append((build, made))
        else:
            conflicts.append(made)
    if not plans:
        return conflicts[0]
    plans.sort(key=_best_first)
    best = plans[0][1]
    others = [_short(build, plan) for build, plan in plans[1:4]]
    remark = (f"also possible: {'; '.join(others)}",) if others else ()
    return replace(best, remarks=(*best.remarks, *remark))


def _best_first(pair: tuple[Build, Plan]) -> tuple[Any, ...]:
    """Native kernels, then certainty of what decides, then AMD's word on the system, then age."""
    build, plan = pair
    row = plan.row("kernels")
    override = "HSA_OVERRIDE_GFX_VERSION" in plan.environment
    sure = ORDER.index(row.confidence) if row else len(ORDER)
    system = plan.row("system")
    listed = 0 if system is None or system.confidence == "sourced" else 1
    preview = "preview" in (plan.row("ROCm") or plan.rows[0]).why
    python = 0 if build.python else 1
    age = tuple(-part for part in number(build.torch))
    rocm = tuple(-part for part in number(build.rocm))
    return override, preview, sure, python, listed, age, build.channel != "upstream", rocm


def _short(build: Build, plan: Plan) -> str:
    return f"torch {build.torch}{build.tag} ({build.channel}, {plan.confidence})"


def wished(libs: Sequence[str]) -> tuple[str, ...]:
    """Library names as the tables write them."""
    return libraries.names(libs)
