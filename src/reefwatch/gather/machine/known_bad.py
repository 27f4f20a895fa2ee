"""Combinations of target and release of which a defect is known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from reefwatch.data.tables import Tables, grade

_VERSION = re.compile(r"(<=|>=|<|>)?\s*(\d+(?:\.(?:\d+|x))*)")


def matching(
    tables: Tables, targets: Sequence[str], rocm: str | None, torch: str | None
) -> list[dict[str, Any]]:
    """Rows that fit a card and the ROCm and torch in use; what cannot be told is not matched."""
    found: list[dict[str, Any]] = []
    for row in tables.rocm.get("regression", ()) if targets else ():
        hit = [gfx for gfx in targets if fits_target(str(row.get("arch", "")), gfx)]
        fits = fits_release(str(row.get("rocm", "")), rocm, torch)
        if not hit or fits == "no":
            continue
        found.append(
            {
                "title": row.get("title", ""),
                "kind": row.get("kind", ""),
                "detail": row.get("detail", ""),
                "advice": row.get("advice", ""),
                "source": row.get("source", ""),
                "gfx": hit,
                "release": row.get("rocm", ""),
                "wsl": "WSL" in str(row.get("arch", "")),
                "grade": grade(row.get("source", ""), row.get("rocm", "")).value,
                "unsure": fits == "maybe" or "open" in str(row.get("source", "")),
            }
        )
    return found


def fits_target(said: str, gfx: str) -> bool:
    """Whether `gfx110x`, `all` or `gfx1100 under WSL2` means this target."""
    if said == "all":
        return True
    for word in re.findall(r"gfx[0-9a-fx]+", said):
        pattern = re.escape(word).replace("x", "[0-9a-f]", 0)
        if word == gfx or (word.endswith("x") and re.fullmatch(pattern[:-1] + "[0-9a-f]", gfx)):
            return True
    return False


def fits_release(said: str, rocm: str | None, torch: str | None) -> str:
    """Whether `7.1, 7.2`, `<= 10.0`, `7.x-10.x?` or `torch >= 2.7 (...)` means these.

    `yes`, `no`, or `maybe`: a wheel of rocm7.2 does not tell whether it is 7.2.0 or 7.2.1.
    """
    text = said.partition("(")[0].partition(" with ")[0]
    have = torch if text.startswith("torch") else rocm
    if not have:
        return "no"
    doubt = "?" in text
    bounds = re.search(r"(\d+)\.x\s*-\s*(\d+)\.x", text)
    if bounds:
        inside = int(bounds[1]) <= _numbers(have)[0] <= int(bounds[2])
        return ("maybe" if doubt else "yes") if inside else "no"
    said_of = [_meets(sign, version, have) for sign, version in _VERSION.findall(text)]
    if "yes" in said_of and not doubt:
        return "yes"
    return "maybe" if "yes" in said_of or "maybe" in said_of else "no"


def _meets(sign: str, version: str, have: str) -> str:
    wanted = [part for part in version.split(".") if part != "x"]
    ours = _numbers(have)
    theirs = _numbers(".".join(wanted))
    cut = ours[: len(theirs)]
    if sign:
        less, more = cut < theirs, cut > theirs
        met = {"<": less, ">": more, "<=": not more, ">=": not less}[sign]
        return "yes" if met else "no"
    if cut == theirs:
        return "yes"
    return "maybe" if len(ours) < len(theirs) and theirs[: len(ours)] == ours else "no"


def _numbers(version: str) -> list[int]:
    return [int(part[:9]) for part in re.findall(r"\d+", version)] or [0]


def firmware(tables: Tables) -> list[dict[str, Any]]:
    """Firmware of which a defect is known."""
    return [_graded(row) for row in tables.machine.get("firmware", ())]


def cuda_drivers(tables: Tables) -> list[dict[str, Any]]:
    """The least driver for each major release of CUDA."""
    return [_graded(row) for row in tables.machine.get("cuda_driver", ())]


def pairs(tables: Tables, driver: Mapping[str, Any]) -> dict[str, Any] | None:
    """The ROCm releases that AMD lists with AMD's own driver; None where the table has none.

    `7.1.3.31500000` holds the driver's release in its last group: 31.50.0.
    """
    text = str(driver.get("version", ""))
    coded = re.fullmatch(r"\d+\.\d+\.\d+\.(\d\d)(\d\d)(\d\d)\d\d", text)
    if coded:
        release = ".".join(str(int(part)) for part in coded.groups())
        listed = [
            str(row["version"])
            for row in tables.rocm.get("release", ())
            if release in row.get("amdgpu_driver", ())
        ]
        minors = list(dict.fromkeys(".".join(one.split(".")[:2]) for one in listed))
        source = f"rocm.toml, amdgpu_driver of driver {release}"
        return {"pairs": minors, "source": source, "grade": "measured"} if minors else None
    for row in tables.machine.get("module", ()) if text else ():
        if row["version"] == text:
            spaces = tables.rocm.get("kmd_user_space", {}).get(row["kmd"], ())
            minors = [space.removesuffix(".x") for space in spaces]
            return {**_graded(row), "pairs": minors} if minors else None
    return None


def _graded(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "grade": grade(row.get("source", "")).value}
