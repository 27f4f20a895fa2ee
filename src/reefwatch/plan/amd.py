"""A set for an AMD card around one torch build."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from reefwatch.data import targets
from reefwatch.plan import libraries, systems
from reefwatch.plan.candidates import Build, kernels, number
from reefwatch.plan.sets import Conflict, Pin, Plan, Row, Wishes

Table = Mapping[str, Any]
_CDNA = ("gfx908", "gfx90a", "gfx942", "gfx950")
FAILURE = "reported to fail:"
_SDK = (7, 9)
"""From here on ROCm is the Core SDK, and its wheels are separate from torch's."""


def torch_fits(build: Build, wish: str) -> bool:
    """`2.13` is any 2.13; `2.13.0+rocm7.2` is that build."""
    version, _, tag = wish.partition("+")
    if tag and "+" + tag != build.tag:
        return False
    asked = number(version)
    return not asked or number(build.torch)[: len(asked)] == asked


def rocm_fits(build: Build, wish: str) -> bool:
    asked = number(wish.lower().removeprefix("rocm"))
    return not asked or number(build.rocm)[: len(asked)] == asked


def refused(
    step: str, wishes: Wishes, left: Sequence[Build], table: Table, releases: Sequence[Table]
) -> Conflict:
    """The conflict when no build passes a step; `left` are those that came to it."""
    if step == "torch":
        row = next((r for r in table["torch"] if r["version"].startswith(wishes.torch)), None)
        if row is not None:
            return Conflict(
                "torch", f"no ROCm build of torch {wishes.torch} is known: {row['note']}"
            )
        have = sorted({build.torch for build in left}, key=number)
        return Conflict(
            "torch", f"torch {wishes.torch} is in no table: they hold {have[0]} to {have[-1]}"
        )
    builds_ = ", ".join(f"{b.torch}{b.tag}" for b in left[:6])
    if step == "channel":
        return Conflict("channel", f"the {wishes.channel} channel has none of: {builds_}")
    if step == "rocm":
        return Conflict("rocm", f"no build for ROCm {wishes.rocm}; there are {builds_}")
    if step == "card":
        words = kernels(left[0], wishes.gfx, table, releases)[2]
        more = f", nor in {len(left) - 1} others that fit" if len(left) > 1 else ""
        return Conflict("card", f"{wishes.gpu or wishes.gfx} ({wishes.gfx}): {words}{more}")
    pythons = sorted({p for b in left for p in b.python}, key=number)
    return Conflict(
        "python",
        f"Python {wishes.python} has no wheel of {builds_}; there are {', '.join(pythons)}",
    )


def assemble(
    build: Build, wishes: Wishes, torch: Table, rocm: Table, libs: Table, asof: str
) -> Plan | Conflict:
    """The whole set around this build, or why a library does not fit."""
    how, sure, words = kernels(build, wishes.gfx, torch, rocm["release"])
    release, release_sure = _release(build, rocm["release"])
    rows = [
        Row("card", wishes.gpu or wishes.gfx, wishes.gfx, "gpus.toml"),
        _system_row(wishes, release, release_sure),
        _driver_row(wishes, release, release_sure, rocm),
        _rocm_row(build, release, release_sure),
        Row(
            "torch",
            build.torch + build.tag,
            f"the newest that fits, from {build.index}",
            build.source,
            build.confidence,
        ),
        Row("kernels", wishes.gfx, words, build.source, sure),
        _python_row(build, wishes),
        _triton_row(build),
    ]
    pins, paired = _pins(build, wishes, how)
    rows += paired
    environment: dict[str, str] = {}
    unset = ["HSA_OVERRIDE_GFX_VERSION"]
    if how == "override":
        near = targets.nearest(wishes.gfx, build.row["gfx"])
        environment["HSA_OVERRIDE_GFX_VERSION"] = targets.version(near or wishes.gfx)
        unset = []
    ground = libraries.Ground("amd", wishes.gfx, build.torch, build.rocm, wishes.python)
    remarks = [*_failures(build, wishes), *_regressions(build, wishes.gfx, rocm)]
    for name in wishes.libraries:
        fitted = libraries.fit(name, ground, libs)
        if isinstance(fitted, Conflict):
            return fitted
        rows.append(fitted.row)
        pins += [fitted.pin] if fitted.pin else []
        environment.update(fitted.environment)
        remarks += [fitted.remark] if fitted.remark else []
    if build.channel == "amd" or number(build.torch) >= (2, 14):
        remarks.append(
            "torch depends on the rocm packages of its index: lock rocm, rocm-sdk-* and "
            f"{build.triton_package} besides it"
        )
    return Plan(
        wishes,
        tuple(rows),
        tuple(pins),
        _index(build, wishes),
        _family(build, wishes.gfx),
        environment,
        tuple(unset),
        tuple(remarks),
        asof,
    )


def _index(build: Build, wishes: Wishes) -> str:
    if wishes.source:
        return "" if wishes.source == "pip" else wishes.source
    return build.index


def _release(build: Build, releases: Sequence[Table]) -> tuple[Table, str]:
    """The ROCm release of a build and how sure its lists are.

    That of the same number; else, or where its row is empty or a copy, the newest of its minor
    whose lists were read.
    """
    minor = [row for row in releases if number(row["version"])[:2] == number(build.rocm)[:2]]
    exact = [row for row in minor if row["version"] == build.rocm]
    read = [row for row in minor if row["os"] and "copied" not in row.get("note", "")]
    for row in exact:
        if row in read:
            return row, "sourced"
    if read:
        return read[0], "inferred" if exact else "sourced"
    return (exact or minor or list(releases))[0], "unknown"


def _system_row(wishes: Wishes, release: Table, sure: str) -> Row:
    if not wishes.os:
        return Row("system", "any Linux", "none was named", "", "unknown")
    system = systems.read(wishes.os)
    assert system is not None, "read before"
    instinct = wishes.gfx in _CDNA
    words = systems.listed(
        system, [row for row in release["os"] if instinct or not row.startswith("Instinct only")]
    )
    source = f"AMD's list for ROCm {release['version']}"
    if words is not None:
        return Row("system", wishes.os, f"listed as {words}", source, sure)
    if not release["os"]:
        return Row(
            "system",
            wishes.os,
            f"no list of systems is known for ROCm {release['version']}",
            source,
            "unknown",
        )
    return Row(
        "system",
        wishes.os,
        f"AMD does not list it for ROCm {release['version']}: they need a recent glibc and an "
        "amdgpu driver, which it may have",
        source,
        "unverified",
    )


def _driver_row(wishes: Wishes, release: Table, sure: str, rocm: Table) -> Row:
    listed = [part.strip() for text in release["amdgpu_driver"] for part in text.split(",")]
    source = f"AMD's driver list for ROCm {release['version']}"
    kernel = _kernel(wishes, release, rocm["distro_kernel"])
    inbox = f"or the kernel's own ({kernel})" if kernel else "or the kernel's own, if it is recent"
    if not listed:
        return Row(
            "driver", f"amdgpu, {inbox}", "no list of drivers is known for it", source, "unknown"
        )
    return Row(
        "driver",
        f"amdgpu {listed[0]}",
        f"newest of AMD's list ({', '.join(listed[:4])}), {inbox}",
        source,
        sure,
    )


def _kernel(wishes: Wishes, release: Table, kernels_: Mapping[str, str]) -> str:
    system = systems.read(wishes.os) if wishes.os else None
    words = systems.listed(system, release["os"]) if system else None
    if words is None:
        return ""
    return kernels_.get(words, kernels_.get(" ".join(words.split(".")[:1]), ""))


def _rocm_row(build: Build, release: Table, sure: str) -> Row:
    sdk = number(build.rocm)[:2] >= _SDK
    where = "from the wheels rocm, rocm-sdk-*" if sdk else "inside the torch wheel"
    why = f"{where}; a ROCm of the system is needed only to compile"
    if "preview" in release["stream"]:
        why += "; a technology preview, not for production"
    return Row("ROCm", build.rocm, why, f"{release['version']} of {release['date']}", sure)


def _python_row(build: Build, wishes: Wishes) -> Row:
    have = ", ".join(build.python) or "unknown for this set"
    chosen = wishes.python or (build.python[-2] if len(build.python) > 1 else "")
    return Row("python", chosen or "any", f"wheels are for {have}", build.source, build.python_sure)


def _triton_row(build: Build) -> Row:
    if not build.triton:
        return Row("triton", build.triton_package, "torch pins it", build.source, "unknown")
    why = "torch pins it; it is not asked for by number"
    if build.triton_sure == "inferred":
        why += " (taken over from the CUDA build of the same release)"
    return Row(
        "triton",
        f"{build.triton_package} {build.triton}",
        why,
        "requires_dist on PyPI",
        build.triton_sure,
    )


def _pins(build: Build, wishes: Wishes, how: str) -> tuple[list[Pin], list[Row]]:
    extras = (f"device-{wishes.gfx}",) if how == "extra" else ()
    pins = [Pin("torch", build.torch + build.tag, True, extras)]
    rows = []
    for name, version in (("torchvision", build.vision), ("torchaudio", build.audio)):
        if name in wishes.without:
            continue
        if version:
            own = extras if name == "torchvision" else ()
            pins.append(Pin(name, version + build.tag, True, own))
            rows.append(
                Row(name, version + build.tag, "of the same set", build.source, build.confidence)
            )
        else:
            why = "no number is known for this set"
            if name == "torchaudio" and number(build.torch) >= (2, 12):
                why = "torchaudio stopped pairing with torch after 2.11"
            rows.append(Row(name, "left out", why, build.source))
    return pins, rows


def _family(build: Build, gfx: str) -> tuple[str, ...]:
    """What else must come from the index of torch, where a tool asks for each by name."""
    names = [build.triton_package]
    if build.channel == "amd" or number(build.rocm)[:2] >= _SDK:
        names += ["rocm", "rocm-sdk-core", "rocm-sdk-libraries"]
    if build.channel == "amd":
        names += [
            f"rocm-sdk-device-{gfx}",
            f"amd-torch-device-{gfx}",
            f"amd-torchvision-device-{gfx}",
        ]
    return tuple(names)


def _failures(build: Build, wishes: Wishes) -> list[str]:
    """Reports of this very build failing on this card (and Python, where the report names one)."""
    return [
        f"{FAILURE} {row['words']} [{row['source']}]"
        for row in build.row.get("failures", ())
        if row["gfx"] == wishes.gfx and wishes.python in ("", row.get("python", wishes.python))
    ]


def _regressions(build: Build, gfx: str, rocm: Table) -> list[str]:
    """What is known to go wrong on this card with this ROCm."""
    told = []
    for row in rocm["regression"]:
        arch = row["arch"].split()[0]
        family = arch.endswith("x") and gfx.startswith(arch[:-1])
        if "WSL2" in row["arch"] or not (arch in (gfx, "all", "unknown") or family):
            continue
        spans = re.findall(r"\d+\.(?:\d+|x)", row["rocm"])
        major = build.minor.split(".")[0]
        if build.minor in spans or f"{major}.x" in spans:
            told.append(f"{row['title']} ({row['kind']}): {row['advice']} [{row['source']}]")
    return told
