"""Registers, spills, LDS and occupancy, from the descriptor and the metadata.

Occupancy counts waves of one SIMD: how many fit by vector registers and by LDS. Register files and
granules: RDNA and CDNA ISA guides; LLVM `AMDGPUBaseInfo` for gfx11 and gfx12 (1,536 registers of 32
lanes in blocks of 24, 16 waves) and gfx90a and later (512 registers in blocks of 8, 8 waves).
"""

from __future__ import annotations

from dataclasses import dataclass

from reefwatch.isa.scan.finding import Found
from reefwatch.isa.text import Program


@dataclass(frozen=True)
class Limits:
    """What a device has: registers of a SIMD per lane, their granule, waves, LDS bytes."""

    registers: int
    granule: int
    waves: int  # of a SIMD
    simds: int  # that one workgroup may spread over (a WGP or a CU)
    lds: int  # bytes that one workgroup may take
    lds_shared: int  # bytes that the workgroups of those SIMDs share


_RDNA2 = Limits(1024, 8, 16, 4, 65536, 131072)
_LIMITS = {
    "gfx103": _RDNA2,
    "gfx1100": Limits(1536, 24, 16, 4, 65536, 131072),
    "gfx1101": Limits(1536, 24, 16, 4, 65536, 131072),
    "gfx1102": Limits(1024, 16, 16, 4, 65536, 131072),
    "gfx1103": Limits(1024, 16, 16, 4, 65536, 131072),
    "gfx1150": Limits(1024, 16, 16, 4, 65536, 131072),
    "gfx1151": Limits(1536, 24, 16, 4, 65536, 131072),
    "gfx12": Limits(1536, 24, 16, 4, 65536, 131072),
    "gfx942": Limits(512, 8, 8, 4, 65536, 65536),
    "gfx950": Limits(512, 8, 8, 4, 163840, 163840),
    "gfx90a": Limits(512, 8, 8, 4, 65536, 65536),
}


def limits_of(target: str) -> Limits | None:
    """The limits of a target, by the longest known prefix of its name."""
    for length in range(len(target), 4, -1):
        if target[:length] in _LIMITS:
            return _LIMITS[target[:length]]
    return None


def resources(program: Program, target: str, shared: int) -> tuple[dict[str, int], list[Found]]:
    """Facts by name, and what is over a limit or spilled."""
    descriptor, metadata = program.descriptor, program.metadata

    def number(key: str) -> int:
        return int(metadata.get(key, "0") or 0)

    lds = max(shared, descriptor.get("group_segment_fixed_size", 0))
    facts = {
        "vector registers": number("vgpr_count") or descriptor.get("next_free_vgpr", 0),
        "scalar registers": number("sgpr_count"),
        "vector spills": number("vgpr_spill_count"),
        "scalar spills": number("sgpr_spill_count"),
        "scratch bytes": descriptor.get("private_segment_fixed_size", 0),
        "LDS bytes": lds,
    }
    found = []
    if facts["vector spills"]:
        found.append(Found("spill", f"{facts['vector spills']} vector registers are spilled to "
                           f"scratch ({facts['scratch bytes']} bytes per lane)"))  # fmt: skip
    device = limits_of(target)
    if device is None:
        return facts, found
    if lds > device.lds:
        found.append(Found("LDS", f"{lds} bytes of LDS, {target} has {device.lds}"))
    facts["waves per SIMD"] = _occupancy(program, device, facts["vector registers"], lds)
    return facts, found


def _occupancy(program: Program, device: Limits, registers: int, lds: int) -> int:
    per_wave = max(1, -(-max(registers, 1) // device.granule)) * device.granule
    if program.wave == 64 and device.registers > 512:
        per_wave *= 2
    by_registers = min(device.waves, device.registers // per_wave)
    waves = program.waves
    groups = by_registers * device.simds // waves
    if lds:
        groups = min(groups, device.lds_shared // lds)
    return min(by_registers, -(-groups * waves // device.simds)) if groups else 0
