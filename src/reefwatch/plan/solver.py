"""Wishes and tables in, one consistent set or a named conflict out. No I/O, no clock."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from reefwatch.plan import amd, cards, libraries, nearest, other, systems
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

    @cached_property
    def builds(self) -> tuple[Build, ...]:
        """Every torch build for AMD, of both channels."""
        return tuple(builds(self.torch))

    @property
    def asof(self) -> str:
        return str(min(table["asof"] for table in (self.gpus, self.rocm, self.torch, self.libs)))


def solve(wishes: Wishes, tables: Tables) -> Plan | Conflict:
    """One set, or the conflict with the nearest set that is possible (see `nearest`)."""
    known = cards.resolve(wishes, tables.gpus)
    resolved = wishes if isinstance(known, Conflict) else known
    said = known if isinstance(known, Conflict) else _solve(known, tables)
    if isinstance(said, Plan):
        return said
    near = nearest.nearest(resolved, tables, _best_first)
    return said if near is None else said.with_nearest(near[1], near[0])


def _solve(known: Wishes, tables: Tables) -> Plan | Conflict:
    wrong = systems.wrong(known.os, tables.rocm["release"]) if known.os else ""
    if wrong:
        return Conflict("system", wrong)
    if known.python and not re.fullmatch(r"3\.\d{1,2}", known.python):
        return Conflict("python", f"{known.python!r} is no Python such as 3.12")
    if known.vendor != "amd":
        return other.solve(known, tables)
    return _amd(known, tables)


def _amd(wishes: Wishes, tables: Tables) -> Plan | Conflict:
    every = list(tables.builds)
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
    """No failure that was reported, native kernels, then certainty of what decides, then AMD's word
    on the system, then age.
    """
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
    fails = any(remark.startswith(amd.FAILURE) for remark in plan.remarks)
    return fails, override, preview, sure, python, listed, age, build.channel != "upstream", rocm


def _short(build: Build, plan: Plan) -> str:
    return f"torch {build.torch}{build.tag} ({build.channel}, {plan.confidence})"


def wished(libs: Sequence[str]) -> tuple[str, ...]:
    """Library names as the tables write them."""
    return libraries.names(libs)
