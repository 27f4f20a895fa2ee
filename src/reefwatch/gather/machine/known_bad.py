"""Combinations of target and release of which a defect is known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reefwatch.data.tables import Tables, grade

_VERSION = re.compile(r"(<=|>=|<|>)?\s*(\d+(?:\.(?:\d+|x))*)")


def matching(
    tables: Tables, targets: Sequence[str], rocm: str | None, torch: str | None
) -> list[dict[str, Any]]:
    """Rows that fit a card and the ROCm and torch in use; what cannot be told is not matched."""
    found = []
    for row in tables.rocm.get("regression", ()):
        hit = [gfx for gfx in targets if fits_target(str(row.get("arch", "")), gfx)]
        if not hit or not fits_release(str(row.get("rocm", "")), rocm, torch):
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
                "unsure": "?" in str(row.get("rocm", "")) or "open" in str(row.get("source", "")),
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


def fits_release(said: str, rocm: str | None, torch: str | None) -> bool:
    """Whether `7.1, 7.2`, `<= 10.0`, `7.x-10.x?` or `torch >= 2.7 (...)` means these."""
    text = said.partition("(")[0].partition(" with ")[0]
    have = torch if text.startswith("torch") else rocm
    if not have:
        return False
    bounds = re.search(r"(\d+)\.x\s*-\s*(\d+)\.x", text)
    if bounds:
        return int(bounds[1]) <= _numbers(have)[0] <= int(bounds[2])
    return any(_meets(sign, version, have) for sign, version in _VERSION.findall(text))


def _meets(sign: str, version: str, have: str) -> bool:
    wanted = [part for part in version.split(".") if part != "x"]
    ours = _numbers(have)
    theirs = _numbers(".".join(wanted))
    cut = ours[: len(theirs)]
    if sign:
        less, more = cut < theirs, cut > theirs
        return (
            less if sign == "<" else more if sign == ">" else not (more if sign == "<=" else less)
        )
    return cut == theirs or (len(ours) < len(theirs) and theirs[: len(ours)] == ours)


def _numbers(version: str) -> list[int]:
    return [int(part[:9]) for part in re.findall(r"\d+", version)] or [0]


def titles(rows: Iterable[dict[str, Any]]) -> list[str]:
    return [str(row["title"]) for row in rows]


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
    for row in tables.machine.get("module", ()):
        if row["version"] == text:
            spaces = tables.rocm.get("kmd_user_space", {}).get(row["kmd"], ())
            minors = [space.removesuffix(".x") for space in spaces]
            return {**_graded(row), "pairs": minors} if minors else None
    return None


def _graded(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "grade": grade(row.get("source", "")).value}
