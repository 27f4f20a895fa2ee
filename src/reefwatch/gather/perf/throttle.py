"""Throttle reasons in words: amdgpu's gpu_metrics table and NVML's bit mask."""

from __future__ import annotations

import struct

from reefwatch.core.fact import Unknown
from reefwatch.gather.perf.reader import Reasons

_INDEPENDENT = {(1, 3): 112, (2, 2): 120, (2, 3): 120, (2, 4): 120}
"""Byte offset of `indep_throttle_status` by (format, content) revision of the table.

Source: Linux, drivers/gpu/drm/amd/include/kgd_pp_interface.h. Later tables (1.4 and up, 3.x) have
counters of their own instead; they are not read.
"""

_AMD = {
    **dict.fromkeys(range(8), "power"),  # PPT0-3, SPL, FPPT, SPPT
    **dict.fromkeys((16, 17, 18, 19, 20, 21, 22, 23), "current"),  # TDC, EDC, APCC
    32: "temperature: gpu",
    33: "temperature: core",
    34: "temperature: memory",
    35: "temperature: edge",
    36: "temperature: hotspot",
    37: "temperature: soc",
    38: "temperature: voltage regulator, gfx",
    39: "temperature: voltage regulator, soc",
    40: "temperature: voltage regulator, memory",
    41: "temperature: voltage regulator, memory",
    42: "temperature: liquid",
    43: "temperature: liquid",
    44: "temperature: voltage regulator",
    45: "temperature: voltage regulator",
    46: "hardware: prochot, cpu",
    47: "hardware: prochot, gfx",
    56: "other: ppm",
    57: "other: reliability",
}
"""Source: Linux, drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h, SMU_THROTTLER_*_BIT."""

_NVIDIA = {
    0x002: "setting: application clocks",
    0x004: "power: cap",
    0x008: "hardware: slowdown",
    0x010: "setting: sync boost",
    0x020: "temperature: driver",
    0x040: "temperature: hardware",
    0x080: "hardware: power brake",
    0x100: "setting: display clocks",
}
"""Source: NVML, nvmlClocksEventReasons. 0x001 (idle) is no slowdown."""


def amd_table_revision(raw: bytes) -> tuple[int, int] | Unknown:
    """(format, content) of a gpu_metrics table. Format 1 is a discrete GPU, 2 and 3 an APU."""
    if len(raw) < 4:
        return Unknown("gpu_metrics is empty or too short")
    size, form, content = struct.unpack_from("<HBB", raw)
    if size != len(raw) or not form:
        return Unknown(f"gpu_metrics says {size} bytes and has {len(raw)}")
    return form, content


def amd_reasons(raw: bytes) -> Reasons:
    """Why an AMD GPU is slowed down, from its gpu_metrics table."""
    revision = amd_table_revision(raw)
    if isinstance(revision, Unknown):
        return revision
    offset = _INDEPENDENT.get(revision)
    if offset is None or len(raw) < offset + 8:
        return Unknown(
            "gpu_metrics {}.{} holds no throttle status that is known here".format(*revision)
        )
    (status,) = struct.unpack_from("<Q", raw, offset)
    if status == 0xFFFFFFFFFFFFFFFF:
        return Unknown("gpu_metrics leaves the throttle status unset")  # all ones: not supported
    return _words(status, {1 << bit: word for bit, word in _AMD.items()})


def nvidia_reasons(mask: int) -> tuple[str, ...]:
    """Why an NVIDIA GPU is slowed down, from the mask of NVML."""
    return _words(mask, _NVIDIA)


def _words(status: int, table: dict[int, str]) -> tuple[str, ...]:
    """The words of the set bits, each once; a bit without a word is told by its number."""
    words = {word: None for bit, word in table.items() if status & bit}
    known = sum(table) | 0x1  # bit 0 of NVML is idle; of amdgpu it is in the table
    unknown = status & ~known
    for bit in range(64):
        if unknown >> bit & 1:
            words[f"other: bit {bit}"] = None
    return tuple(words)
