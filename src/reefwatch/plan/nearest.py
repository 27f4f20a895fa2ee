"""The nearest set that is possible, where the one that is wished is not.

How far a set is from the wishes is compared in this order:

1. whether it leaves the card: the CPU is nearest only where no set serves the card;
2. how many wishes it gives up: each library is one, so are torch, ROCm, channel, Python and system;
3. how many releases of torch, ROCm and Python lie between what is wished and what it has; a library
   that is left out is as far as five releases;
4. what the solver prefers among sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reefwatch.plan import amd, libraries, other, systems
from reefwatch.plan.candidates import Build, builds, kernels, number
from reefwatch.plan.sets import Conflict, Plan, Wishes

Table = Mapping[str, Any]
LEFT_OUT = 5
"""A library that is left out, in releases."""
_PYTHON = 12
"""The minor release that stands for what is no Python 3."""


@dataclass(frozen=True)
class Distance:
    """From the wishes to a set. Smaller is nearer."""

    off_card: bool
    given_up: int
    releases: int

    def key(self) -> tuple[bool, int, int]:
        return self.off_card, self.given_up, self.releases


@dataclass(frozen=True)
class Offer:
    """What a set has in place of the wishes."""

    torch: str
    rocm: str
    channel: str
    python: str
    os: str
    left_out: tuple[str, ...]
    on_cpu: bool = False


@dataclass(frozen=True)
class Releases:
    """The minor releases that the tables know, oldest first."""

    torch: tuple[tuple[int, ...], ...]
    rocm: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(table: Table, every: Sequence[Build] = ()) -> Releases:
        every = every or list(builds(table))
        torch = {number(row["version"])[:2] for row in table["torch"]}
        return Releases(
            tuple(sorted(torch | {number(build.torch)[:2] for build in every})),
            tuple(sorted({number(build.rocm)[:2] for build in every})),
        )


def between(wished: tuple[int, ...], got: tuple[int, ...], known: Sequence[tuple[int, ...]]) -> int:
    """How many releases on one has to go from the wished minor to the other."""
    wished, got = wished[:2], got[:2]
    low, high = sorted((wished, got))
    steps = len([one for one in known if low < one <= high])
    return steps if high in known or low == high else steps + 1


def distance(wishes: Wishes, offer: Offer, known: Releases) -> Distance:
    """How far an offer is from the wishes."""
    given_up, releases = len(offer.left_out), LEFT_OUT * len(offer.left_out)
    if _differs(wishes.torch.partition("+")[0], offer.torch) or _tag_differs(wishes.torch, offer):
        given_up += 1
        releases += between(number(wishes.torch), number(offer.torch), known.torch)
    if not offer.on_cpu and _differs(wishes.rocm.lower().removeprefix("rocm"), offer.rocm):
        given_up += 1
        releases += between(number(wishes.rocm), number(offer.rocm), known.rocm)
    if not offer.on_cpu and wishes.channel and wishes.channel != offer.channel:
        given_up += 1
    if wishes.python != offer.python and wishes.python:
        given_up += 1
        releases += abs(_minor(wishes.python) - _minor(offer.python))
    given_up += wishes.os != offer.os
    return Distance(offer.on_cpu, given_up, releases)


def nearest(
    wishes: Wishes, tables: Any, best_first: Callable[[tuple[Build, Plan]], tuple[Any, ...]]
) -> tuple[str, Plan] | None:
    """(what is given up, the set), or None. `wishes` are resolved, or for no card that is known."""
    known = Releases.of(tables.torch, tables.builds)
    os = _system(wishes, tables.rocm)
    if wishes.vendor == "amd" and wishes.gfx:
        found = _for_amd(wishes, os, tables, known, best_first)
        if found is not None:
            return found
    if wishes.vendor == "nvidia":
        found = _elsewhere(wishes, "nvidia", os, tables, known)
        if found is not None:
            return found
    return _elsewhere(wishes, "cpu", os, tables, known)


def _for_amd(
    wishes: Wishes, os: str, tables: Any, known: Releases, best_first: Any
) -> tuple[str, Plan] | None:
    ranked: list[tuple[Distance, int, Build, Offer, Wishes]] = []
    for count, build in enumerate(tables.builds):
        if not kernels(build, wishes.gfx, tables.torch, tables.rocm["release"])[0]:
            continue
        python = _python(wishes.python, build.python)
        ground = libraries.Ground("amd", wishes.gfx, build.torch, build.rocm, python)
        kept, left = _libraries(wishes, ground, tables.libs)
        offer = Offer(build.torch, build.rocm, build.channel, python, os, left)
        asked = replace(wishes, torch="", rocm="", channel="", python=python, os=os, libraries=kept)
        ranked.append((distance(wishes, offer, known), count, build, offer, asked))
    ranked.sort(key=lambda row: (row[0].key(), row[1]))
    while ranked:
        nearest_, ties = ranked[0][0].key(), []
        while ranked and ranked[0][0].key() == nearest_:
            ties.append(ranked.pop(0))
        made = []
        for _, _, build, offer, asked in ties:
            plan = amd.assemble(build, asked, tables.torch, tables.rocm, tables.libs, tables.asof)
            if isinstance(plan, Plan):
                made.append((build, plan, offer))
        if made:
            _, plan, offer = min(made, key=lambda row: best_first((row[0], row[1])))
            return said(wishes, offer), plan
    return None


def _elsewhere(
    wishes: Wishes, vendor: str, os: str, tables: Any, known: Releases
) -> tuple[str, Plan] | None:
    """The nearest set for the CPU, or for a card of NVIDIA's."""
    best: tuple[Distance, str, Plan] | None = None
    gpu = wishes.gpu if vendor == "nvidia" else "cpu"
    for row in tables.torch["torch"]:
        if row["confidence"] == "unknown":
            continue
        python = _python(wishes.python, row["python"])
        ground = libraries.Ground(vendor, "", row["version"], "", python)
        kept, left = _libraries(wishes, ground, tables.libs)
        offer = Offer(row["version"], "", "", python, os, left, on_cpu=vendor == "cpu")
        far = distance(wishes, offer, known)
        if best is not None and best[0].key() <= far.key():
            continue
        asked = replace(wishes, vendor=vendor, gpu=gpu, gfx="", torch="", rocm="", channel="",
                        python=python, os=os, libraries=kept)  # fmt: skip
        plan = other.assemble(row, asked, tables)
        if isinstance(plan, Plan):
            best = far, said(wishes, offer), plan
    return None if best is None else (best[1], best[2])


def said(wishes: Wishes, offer: Offer) -> str:
    """`with torch 2.12.0 in place of 2.15, without xformers`."""
    parts = ["on the CPU"] if offer.on_cpu and wishes.vendor != "cpu" else []
    if wishes.os != offer.os:
        parts.append(f"on {offer.os}")
    pairs = [("torch", wishes.torch, offer.torch)]
    pairs += [] if offer.on_cpu else [("ROCm", wishes.rocm, offer.rocm)]
    for name, wished, got in pairs:
        plain = wished.lower().removeprefix("rocm").partition("+")[0]
        if _differs(plain, got) or (name == "torch" and _tag_differs(wished, offer)):
            parts.append(f"with {name} {got} in place of {wished}")
    if not offer.on_cpu and wishes.channel and wishes.channel != offer.channel:
        parts.append(f"from the {offer.channel} channel")
    if wishes.python and wishes.python != offer.python:
        parts.append(f"with Python {offer.python} in place of {wishes.python}")
    if offer.left_out:
        parts.append(f"without {', '.join(offer.left_out)}")
    return ", ".join(parts) or "with what the tables know"


def _libraries(
    wishes: Wishes, ground: libraries.Ground, libs: Table
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(those that fit, those that do not)."""
    fitting = tuple(
        name
        for name in wishes.libraries
        if not isinstance(libraries.fit(name, ground, libs), Conflict)
    )
    return fitting, tuple(name for name in wishes.libraries if name not in fitting)


def _python(wished: str, have: Sequence[str]) -> str:
    """The wished Python where there is one, else the nearest of those that there are."""
    known = [one for one in have if one.startswith("3.")]
    if not known or not wished or wished in known:
        return wished
    return min(known, key=lambda one: (abs(_minor(one) - _minor(wished)), -_minor(one)))


def _minor(python: str) -> int:
    parts = number(python)
    return parts[1] if len(parts) > 1 and parts[0] == 3 else _PYTHON


def _differs(wished: str, got: str) -> bool:
    asked = number(wished)
    return bool(wished) and number(got)[: len(asked)] != asked


def _tag_differs(wished: str, offer: Offer) -> bool:
    """Whether `2.13.0+rocm7.2` is of another build."""
    tag = wished.partition("+")[2]
    return bool(tag) and tag != (f"rocm{offer.rocm}" if offer.rocm else "cpu")


def _system(wishes: Wishes, rocm: Table) -> str:
    """The system itself where it can be, else the nearest of the same name, else Ubuntu 24.04."""
    if not wishes.os or not systems.wrong(wishes.os, rocm["release"]):
        return wishes.os
    return systems.near(wishes.os, rocm["release"]) or "ubuntu-24.04"
