"""All torch builds for AMD that the tables know, as one shape for both channels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from reefwatch.data import targets
from reefwatch.plan.sets import told_by, weakest

Table = Mapping[str, Any]
_UPSTREAM = "https://download.pytorch.org/whl/"


@dataclass(frozen=True)
class Build:
    """One torch build: versions, index, what it runs on, and how sure each of that is."""

    channel: str
    torch: str
    rocm: str
    """As in the tag: `7.2`, `10.1.0`."""
    index: str
    vision: str
    audio: str
    python: tuple[str, ...]
    """Empty when not known."""
    python_sure: str
    confidence: str
    source: str
    triton_package: str
    triton: str
    triton_sure: str
    row: Table

    @property
    def tag(self) -> str:
        return f"+rocm{self.rocm}"

    @property
    def minor(self) -> str:
        return ".".join(self.rocm.split(".")[:2])


@lru_cache(maxsize=4096)
def number(version: str) -> tuple[int, ...]:
    """`2.13.0+rocm7.2` as (2, 13, 0)."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0]))


def builds(table: Table) -> Iterator[Build]:
    """Every build of both channels."""
    for row in table["torch"]:
        for kind, confidence in (("rocm_indexes", ""), ("rocm_indexes_inferred", "inferred")):
            for index in row.get(kind, ()):
                yield _upstream(table, row, index, confidence)
    for row in table["amd_wheel"]:
        yield _amd(table, row)


def _upstream(table: Table, row: Table, index: str, confidence: str) -> Build:
    version = index.removeprefix("rocm")
    said = confidence or row["confidence"]
    if re.search(rf"{re.escape(index)} (?:from memory|presence inferred)", row["note"]):
        said = weakest(said, told_by(row["note"]))
    if row["version"].startswith("2.8") and index != row["recommended_index"]:
        said = weakest(said, "partly")  # its sources disagree on the newest index
    vision = row["torchvision"]
    # ROCm pins were compared with the CUDA ones for two releases; the others follow by rule
    sure = "sourced" if row["version"] in ("2.10.0", "2.14.1") else "inferred"
    return Build(
        channel="upstream",
        torch=row["version"],
        rocm=version,
        index=_UPSTREAM + index,
        vision="" if "unknown" in vision else vision,
        audio=row["torchaudio"],
        python=_pythons(row),
        python_sure=said,
        confidence=said,
        source=f"{table['sources']['pairs']}; {row['note']}".rstrip("; "),
        triton_package=row["triton_package"],
        triton="" if "unknown" in row["triton"] else row["triton"],
        triton_sure=sure,
        row=row,
    )


def _pythons(row: Table | None) -> tuple[str, ...]:
    return tuple(t for t in (row or {}).get("python", ()) if re.fullmatch(r"3\.\d+", t))


def _amd(table: Table, row: Table) -> Build:
    known = _pythons(row)
    page = (
        "install page" in row["source"]
        or row["source"] == "same page"
        or "same page" in row["source"]
    )
    plain = next((one for one in table["torch"] if one["version"] == row["torch"]), None)
    listed = len(known) > 1  # "3.12 seen" is no list: that of the same upstream release is taken
    return Build(
        channel="amd",
        torch=row["torch"],
        rocm=row["rocm"],
        index=row["index"],
        vision="" if "unknown" in row["torchvision"] else row["torchvision"],
        audio="" if "unknown" in row["torchaudio"] else row["torchaudio"],
        python=known if listed else _pythons(plain),
        python_sure="sourced" if listed else "inferred",
        confidence="sourced" if page else "unverified",
        source=row["source"]
        if "same page" not in row["source"]
        else table["amd_wheel"][0]["source"],
        triton_package="triton-rocm" if number(row["torch"]) >= (2, 10) else "pytorch-triton-rocm",
        triton="" if plain is None else plain["triton"],
        triton_sure="inferred",
        row=row,
    )


def kernels(
    build: Build, gfx: str, table: Table, releases: Sequence[Table]
) -> tuple[str, str, str]:
    """(how the build serves the card: "native" "extra" "override" "", confidence, words)."""
    if build.channel == "amd":
        return _amd_kernels(build, gfx, table, releases)
    row, said = build.row, build.confidence
    if gfx in row["gfx"]:
        source = row["gfx_source"]
        sure = weakest(said, told_by(source, said)) if _doubts(source, gfx) else said
        if gfx == "gfx942" and build.rocm.startswith("5."):
            return "", said, f"gfx942 is only in the builds for ROCm 6.0 and newer ({row['note']})"
        return "native", sure, f"in the arch list of the wheel ({source})"
    near = targets.nearest(gfx, row["gfx"])
    if near is not None:
        return (
            "override",
            "unverified",
            f"no kernels for {gfx}; those of {near} load with "
            f"HSA_OVERRIDE_GFX_VERSION={targets.version(near)}, which AMD does not support",
        )
    return (
        "",
        said,
        f"no kernels for {gfx} in the wheel ({row['gfx_source'] or 'arch list unknown'})",
    )


def _doubts(source: str, gfx: str) -> bool:
    """Whether the words of doubt in a source are about this target, or about all of them."""
    if "per-index difference unknown" in source:
        return gfx in ("gfx950", "gfx1150", "gfx1151")
    if "unverified" in source:
        return gfx in source
    return told_by(source) != "sourced"


def _amd_kernels(
    build: Build, gfx: str, table: Table, releases: Sequence[Table]
) -> tuple[str, str, str]:
    extras = _extras(build.row, table)
    if gfx in extras:
        return "extra", build.confidence, f"torch[device-{gfx}] is in AMD's list for this set"
    release = next((one for one in releases if one["version"] == build.rocm), None)
    open_end = "others" in " ".join(extras) or "all" in extras
    if open_end and release is not None and gfx in release["gfx"]:
        return (
            "extra",
            "unverified",
            f"ROCm {build.rocm} lists {gfx}; torch[device-{gfx}] is not among the extras that were "
            "seen for this set",
        )
    return "", build.confidence, f"AMD's set for ROCm {build.rocm} has no extra for {gfx}"


def _extras(row: Table, table: Table) -> list[str]:
    """The device extras, with `as 10.1.0 / 2.14.0` followed and lists in words taken apart."""
    found: list[str] = []
    for text in row["extras"]:
        if text.startswith("as "):
            rocm, _, torch = text.removeprefix("as ").partition(" / ")
            for one in table["amd_wheel"]:
                if (one["rocm"], one["torch"]) == (rocm, torch):
                    found += one["extras"]
        else:
            found += re.findall(r"gfx[0-9a-f]+|all\b|others", text)
    return found
