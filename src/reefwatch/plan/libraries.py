"""Libraries on top of a torch build: which version fits, or why none does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from packaging.specifiers import SpecifierSet

from reefwatch.data import targets
from reefwatch.plan.candidates import number
from reefwatch.plan.sets import Conflict, Pin, Row, weakest

Table = Mapping[str, Any]
_NAMES = {
    "flash_attn": "flash-attn",
    "flash-attention": "flash-attn",
    "pytorch-lightning": "lightning",
    "bnb": "bitsandbytes",
    "te": "transformer-engine",
    "transformer_engine": "transformer-engine",
}
_PURE = ("lightning", "accelerate", "transformers")
"""Python only: the card makes no difference."""


@dataclass(frozen=True)
class Ground:
    """What the libraries stand on."""

    vendor: str
    gfx: str
    torch: str
    rocm: str
    python: str


@dataclass(frozen=True)
class Library:
    """One library that fits."""

    row: Row
    pin: Pin | None
    environment: tuple[tuple[str, str], ...] = ()
    remark: str = ""


def known(table: Table) -> list[str]:
    return ["lightning", *(row["name"] for row in table["lib"])]


def canonical(name: str) -> str:
    low = name.strip().lower()
    return _NAMES.get(low, low.replace("_", "-"))


def fit(name: str, ground: Ground, table: Table) -> Library | Conflict:
    """The newest version that fits, or the conflict."""
    name = canonical(name)
    if name == "lightning":
        return _lightning(ground, table)
    row = next((one for one in table["lib"] if one["name"] == name), None)
    if row is None:
        near = get_close_matches(name, known(table), n=2)
        hint = f"; near: {', '.join(near)}" if near else f"; known: {', '.join(known(table))}"
        return Conflict("library", f"{name} is in no table{hint}")
    if name == "triton":
        said = "comes with torch; the one on PyPI would replace files of the same import name"
        return Library(Row("triton", "torch's own", said, row["source"]), None)
    if name == "vllm":
        return _vllm(ground, row)
    if ground.vendor == "cpu" and name not in _PURE:
        return Conflict("library", f"{name} is for a GPU, and the plan is for the CPU")
    if ground.vendor == "amd":
        refused = _refused(name, ground, row)
        if refused is not None:
            return refused
    return _pinned(name, ground, row)


def _lightning(ground: Ground, table: Table) -> Library | Conflict:
    rows = [one for one in reversed(table["lightning"]) if _fits(one["requires"], ground.torch)]
    rows = [one for one in rows if _python(one["python"], ground.python)]
    if not rows:
        return Conflict("library", f"no lightning fits torch {ground.torch} on {ground.python}")
    row = rows[0]
    last = re.search(r"\d+\.\d+", row["ci_last"])
    tested = bool(last) and number(ground.torch)[:2] <= number(last[0] if last else "")
    why = (
        f"its metadata asks for torch {row['requires']}; its own CI table ends at {row['ci_last']}"
    )
    return Library(
        Row(
            "lightning",
            row["latest_patch"],
            why,
            "PyPI metadata and Lightning's versioning page",
            "sourced" if tested else "partly",
        ),
        Pin("lightning", row["latest_patch"]),
        remark="" if ground.vendor != "amd" else "Lightning knows no peak of AMD cards: no MFU",
    )


def _vllm(ground: Ground, row: Table) -> Library | Conflict:
    if ground.vendor == "amd":
        return Conflict(
            "library",
            "vllm for ROCm brings a torch of its own and must not share an environment with "
            f"another; give it one, or a container ({_image(row['note'])})",
        )
    if ground.vendor == "cpu":
        return Conflict("library", "vllm on PyPI is the CUDA build, and the plan is for the CPU")
    return _pinned("vllm", ground, row)


def _image(note: str) -> str:
    found = re.search(r"rocm/vllm:\S+", note)
    return found[0].rstrip(";") if found else "rocm/vllm"


def _refused(name: str, ground: Ground, row: Table) -> Conflict | None:
    """Why a library does not work on this card with this ROCm, if it does not."""
    note = row.get("gfx1100_note", "")
    fp8 = ground.gfx in ("gfx942", "gfx950")
    if row["gfx1100"] == "no" and not (name == "transformer-engine" and fp8):
        cdna = name == "xformers" and ground.gfx in ("gfx90a", "gfx942")
        if not cdna:
            return Conflict("library", f"{name} does not work on {ground.gfx}: {note}")
    if name == "flash-attn" and not (ground.gfx in row["archs_ck"] or _rdna(ground.gfx)):
        return Conflict("library", f"flash-attn has no backend for {ground.gfx}")
    return None


def _rdna(gfx: str) -> bool:
    return len(gfx) == 7


def _carries(ground: Ground, row: Table, version: str) -> str:
    """Why the wheel of a version has nothing for this ROCm and card; empty when it has."""
    wheels = {one["rocm"]: one for one in row["rocm_wheels"] if one["version"] == version}
    one = wheels.get(".".join(ground.rocm.split(".")[:2]))
    if one is None:
        have = ", ".join(sorted(wheels, key=number)) or "none"
        return (
            f"bitsandbytes has no library for ROCm {ground.rocm}: its wheel {version} has those "
            f"for {have}"
        )
    if not any(targets.runs_on(name, ground.gfx) for name in one["archs"]):
        return f"bitsandbytes {version} for ROCm {one['rocm']} carries no code for {ground.gfx}"
    return ""


def _pinned(name: str, ground: Ground, row: Table) -> Library | Conflict:
    fitting = [
        one
        for one in row.get("pins", ())
        if _fits(one.get("torch", ""), ground.torch)
        and _python(one.get("python", ""), ground.python)
    ]
    if not fitting:
        asks = row.get("requires_torch", "nothing known")
        return Conflict(
            "library",
            f"no {name} that is known fits torch {ground.torch} on Python "
            f"{ground.python or '(any)'}: it asks for {asks}",
        )
    if name == "bitsandbytes" and ground.vendor == "amd":
        lacks = [_carries(ground, row, one["version"]) for one in fitting]
        if all(lacks):
            return Conflict("library", lacks[0])
        fitting = [one for one, why in zip(fitting, lacks, strict=True) if not why]
    version = fitting[0]["version"]
    status = row["gfx1100"]
    sure = "sourced"
    why = row.get("gfx1100_note", "") if ground.vendor == "amd" else f"fits torch {ground.torch}"
    if name == "bitsandbytes" and ground.vendor == "amd":
        why = f"its wheel carries a library for ROCm {ground.rocm} with code for {ground.gfx}"
    if ground.vendor == "amd" and name not in _PURE:
        sure = "partly" if status in ("partial", "build-from-source") else sure
        if ground.gfx != "gfx1100" and name != "bitsandbytes":
            sure = weakest(sure, "inferred")
            why += f"; stated for gfx1100, taken over for {ground.gfx}"
    remark = ""
    environment: tuple[tuple[str, str], ...] = ()
    build: tuple[str, ...] = ()
    if name == "flash-attn":
        environment, build, remark = _flash(ground)
    return Library(
        Row(name, version, why, row["source"], sure),
        Pin(name, version, build=build),
        environment,
        remark,
    )


def _flash(ground: Ground) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...], str]:
    if ground.vendor == "nvidia":
        return (), ("--no-build-isolation",), "flash-attn is compiled here: nvcc of torch's CUDA"
    env = (("FLASH_ATTENTION_TRITON_AMD_ENABLE", "TRUE"), ("GPU_ARCHS", ground.gfx))
    return (
        env,
        ("--no-build-isolation",),
        f"flash-attn is compiled here and needs hipcc of ROCm {ground.rocm}; torch's own attention "
        "(SDPA) needs neither",
    )


def _fits(spec: str, version: str) -> bool:
    return not spec or SpecifierSet(spec).contains(version)


def _python(text: str, python: str) -> bool:
    """`>=3.10 (2.6.0: >=3.9)`: the first bound counts."""
    found = re.match(r">=\d+\.\d+", text)
    return not python or found is None or SpecifierSet(found[0]).contains(python + ".0")


def names(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(canonical(text) for text in texts if text.strip()))
