"""GPU targets: the numbers that code objects carry, generic targets, and what runs on what.

Source: LLVM, llvm/BinaryFormat/ELF.h and docs/AMDGPUUsage.rst (2026); CUDA binaries by "sm_NN".
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MACH = {
    0x20: "gfx600",
    0x21: "gfx601",
    0x22: "gfx700",
    0x23: "gfx701",
    0x24: "gfx702",
    0x25: "gfx703",
    0x26: "gfx704",
    0x28: "gfx801",
    0x29: "gfx802",
    0x2A: "gfx803",
    0x2B: "gfx810",
    0x2C: "gfx900",
    0x2D: "gfx902",
    0x2E: "gfx904",
    0x2F: "gfx906",
    0x30: "gfx908",
    0x31: "gfx909",
    0x32: "gfx90c",
    0x33: "gfx1010",
    0x34: "gfx1011",
    0x35: "gfx1012",
    0x36: "gfx1030",
    0x37: "gfx1031",
    0x38: "gfx1032",
    0x39: "gfx1033",
    0x3A: "gfx602",
    0x3B: "gfx705",
    0x3C: "gfx805",
    0x3D: "gfx1035",
    0x3E: "gfx1034",
    0x3F: "gfx90a",
    0x40: "gfx940",
    0x41: "gfx1100",
    0x42: "gfx1013",
    0x43: "gfx1150",
    0x44: "gfx1103",
    0x45: "gfx1036",
    0x46: "gfx1101",
    0x47: "gfx1102",
    0x48: "gfx1200",
    0x49: "gfx1250",
    0x4A: "gfx1151",
    0x4B: "gfx941",
    0x4C: "gfx942",
    0x4E: "gfx1201",
    0x4F: "gfx950",
    0x50: "gfx1310",
    0x51: "gfx9-generic",
    0x52: "gfx10-1-generic",
    0x53: "gfx10-3-generic",
    0x54: "gfx11-generic",
    0x55: "gfx1152",
    0x57: "gfx1154",
    0x58: "gfx1153",
    0x59: "gfx12-generic",
    0x5A: "gfx1251",
    0x5B: "gfx12-5-generic",
    0x5C: "gfx1172",
    0x5D: "gfx1170",
    0x5E: "gfx1171",
    0x5F: "gfx9-4-generic",
    0x62: "gfx11-7-generic",
    0x63: "gfx13-generic",
}
"""EF_AMDGPU_MACH of e_flags, by its low byte."""

GENERIC = {
    "gfx9-generic": ("gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"),
    "gfx9-4-generic": ("gfx940", "gfx941", "gfx942", "gfx950"),
    "gfx10-1-generic": ("gfx1010", "gfx1011", "gfx1012", "gfx1013"),
    "gfx10-3-generic": tuple(f"gfx103{n}" for n in range(7)),
    "gfx11-generic": (*(f"gfx110{n}" for n in range(4)), *(f"gfx115{n}" for n in range(4))),
    "gfx12-generic": ("gfx1200", "gfx1201"),
    "gfx12-5-generic": ("gfx1250", "gfx1251"),
}
"""What a generic target runs on."""

SPIRV = "spirv"
"""Code that the runtime compiles for the card when it loads it."""

NAMES = tuple(sorted(MACH.values(), key=len, reverse=True))
_TARGET = re.compile(r"gfx[0-9a-f]{3,4}(?::(?:xnack|sramecc)[+-])*")
_EXACT = frozenset(name for name in NAMES if "generic" not in name)


def is_amd(target: str) -> bool:
    """`gfx90a:xnack+`, `gfx11-generic` or `spirv`, as against `sm_80`, `ptx_80`."""
    return target.startswith("gfx") or target == SPIRV


def plain(target: str) -> str:
    """The processor of a target without its features: `gfx90a` of `gfx90a:sramecc+:xnack-`."""
    return target.partition(":")[0]


def asked(text: str) -> str | None:
    """The target that a user means (`gfx1100`, `1100`, `GFX90A:xnack-`); None for what is none."""
    name = text.strip().lower()
    name = name if name.startswith("gfx") else "gfx" + name
    return name if _TARGET.fullmatch(name) and plain(name) in _EXACT else None


def named(text: str) -> str | None:
    """The target in a file's name: `gfx90a` of `gfx90a68.db.txt`, where 68 are compute units."""
    found = re.search(r"gfx[0-9][0-9a-z-]*", text)
    if found is None:
        return None
    for name in (*GENERIC, *NAMES):
        if found[0].startswith(name):
            return name
    family = re.match(r"gfx[0-9a-f]{2,3}x", found[0])
    return family[0] if family else None


def runs_on(target: str, gpu: str) -> bool | None:
    """Whether code for `target` loads on `gpu`; None when features decide that are not known.

    A feature that the code does not name may be on or off; one that it names must be as on the GPU.
    """
    if target == SPIRV:
        return True
    have, card = plain(target), plain(gpu)
    if have.endswith("x"):  # a family folder of AOTriton: gfx110x
        return card.startswith(have[:-1])
    if have != card and card not in GENERIC.get(have, ()):
        return False
    wants, has = _features(target), _features(gpu)
    if any(has.get(name, sign) != sign for name, sign in wants.items()):
        return False
    return None if set(wants) - set(has) else True


def nearest(gpu: str, carried: Iterable[str]) -> str | None:
    """The carried target nearest to the GPU, of the same generation (gfx110*); None without one.

    Of gfx9 no two share an instruction set.
    """
    card = plain(gpu)
    if len(card) == 6:
        return None
    near = {plain(name) for name in carried} & _EXACT
    return min((name for name in near if name[:-1] == card[:-1] and name != card), default=None)


def version(gfx: str) -> str:
    """How HSA_OVERRIDE_GFX_VERSION writes a target: `11.0.0` for gfx1100."""
    digits = plain(gfx).removeprefix("gfx")
    return f"{int(digits[:-2])}.{int(digits[-2], 16)}.{int(digits[-1], 16)}"


def _features(target: str) -> dict[str, str]:
    return {part[:-1]: part[-1] for part in target.split(":")[1:]}
