"""What differs between generations: names, counters, start of a wave. The rest is one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reefwatch.core.errors import ReefwatchError
from reefwatch.isa.access import modern
from reefwatch.isa.text import Instruction


class UnknownTarget(ReefwatchError):
    """No generation of this name is modelled."""


@dataclass(frozen=True)
class Generation:
    """One generation of the instruction set."""

    name: str
    wave: int
    counter_names: Mapping[str, str]  # load, store, lds, smem -> hardware counter
    renamed: Mapping[str, str] = field(default_factory=dict)
    zeroes_high: bool = False  # 16-bit results clear the upper half of the register
    group_ids_in_ttmp: bool = False
    limits: Mapping[str, int] = field(default_factory=dict)

    @property
    def counters(self) -> tuple[str, ...]:
        """The hardware counters, each once."""
        return tuple(dict.fromkeys(self.counter_names.values()))

    def counter(self, kind: str) -> str:
        """The counter of loads, stores, LDS or scalar memory."""
        return self.counter_names[kind]

    def canonical(self, instruction: Instruction) -> str:
        """The name under which the table declares an instruction."""
        base = modern(instruction.base)
        if base.startswith("v_dual_"):
            base = "v_" + base[7:]
        return self.renamed.get(base, base)

    def atomic_returns(self, modifiers: dict[str, str]) -> bool:
        """Does the atomic give the old value back? Consumes the modifier that says so."""
        if self.name == "gfx12":
            return "ATOMIC_RETURN" in modifiers.pop("th", "")
        return modifiers.pop("sc0" if self.name == "gfx9" else "glc", None) is not None

    def column(self, bits: list[int]) -> Any:
        """A 32-bit value for each lane."""
        return np.array(bits, np.uint32)


#: gfx12 names of what gfx11 has already
_GFX12 = {
    "v_max_num_f32": "v_max_f32", "v_min_num_f32": "v_min_f32", "v_max_num_f16": "v_max_f16",
    "v_min_num_f16": "v_min_f16", "v_max3_num_f32": "v_max3_f32", "v_min3_num_f32": "v_min3_f32",
    "v_max3_num_f16": "v_max3_f16", "v_min3_num_f16": "v_min3_f16",
    "v_med3_num_f32": "v_med3_f32", "v_maxmin_num_f32": "v_maxmin_f32",
    "v_minmax_num_f32": "v_minmax_f32", "v_max_num_f64": "v_max_f64",
    "v_min_num_f64": "v_min_f64", "v_pk_max_num_f16": "v_pk_max_f16",
    "v_pk_min_num_f16": "v_pk_min_f16", "v_mad_co_u64_u32": "v_mad_u64_u32",
    "v_mad_co_i64_i32": "v_mad_i64_i32", "s_add_co_u32": "s_add_u32",
    "s_sub_co_u32": "s_sub_u32", "s_add_co_ci_u32": "s_addc_u32", "s_sub_co_ci_u32": "s_subb_u32",
    "s_add_co_i32": "s_add_i32", "s_sub_co_i32": "s_sub_i32", "s_addk_co_i32": "s_addk_i32",
    "s_max_num_f32": "s_max_f32", "s_min_num_f32": "s_min_f32",
    "v_lshlrev_b64_pseudo": "v_lshlrev_b64",
}  # fmt: skip
_GFX12 |= {
    f"{space}_atomic_{name}_num_f32": f"{space}_atomic_{name}_f32"
    for space in ("global", "buffer", "flat")
    for name in ("min", "max")
}
_GFX11 = {
    "v_cvt_pkrtz_f16_f32": "v_cvt_pk_rtz_f16_f32",
    "v_lshlrev_b64_e32": "v_lshlrev_b64",
}
#: gfx9 names of what gfx11 calls otherwise
_GFX9 = {
    "v_add_u32": "v_add_nc_u32", "v_sub_u32": "v_sub_nc_u32", "v_subrev_u32": "v_subrev_nc_u32",
    "v_addc_co_u32": "v_add_co_ci_u32", "v_subb_co_u32": "v_sub_co_ci_u32",
    "v_subbrev_co_u32": "v_subrev_co_ci_u32", "v_add_u16": "v_add_nc_u16",
    "v_sub_u16": "v_sub_nc_u16", "v_subrev_u16": "v_subrev_nc_u16", "v_add_i32": "v_add_nc_i32",
    "v_sub_i32": "v_sub_nc_i32", "v_add_i16": "v_add_nc_i16", "v_sub_i16": "v_sub_nc_i16",
    "v_ffbh_u32": "v_clz_i32_u32", "v_ffbl_b32": "v_ctz_i32_b32", "v_ffbh_i32": "v_cls_i32",
    "v_cvt_pkrtz_f16_f32": "v_cvt_pk_rtz_f16_f32", "v_cvt_pknorm_i16_f32": "v_cvt_pk_norm_i16_f32",
    "v_cvt_rpi_i32_f32": "v_cvt_nearest_i32_f32", "v_cvt_flr_i32_f32": "v_cvt_floor_i32_f32",
    "s_andn2_b32": "s_and_not1_b32", "s_andn2_b64": "s_and_not1_b64",
    "s_orn2_b32": "s_or_not1_b32", "s_orn2_b64": "s_or_not1_b64",
    "s_andn2_saveexec_b64": "s_and_not1_saveexec_b64",
    "s_orn2_saveexec_b64": "s_or_not1_saveexec_b64",
    "s_andn1_saveexec_b64": "s_and_not0_saveexec_b64",
    "s_ff1_i32_b32": "s_ctz_i32_b32", "s_ff1_i32_b64": "s_ctz_i32_b64",
    "s_flbit_i32_b32": "s_clz_i32_u32", "s_flbit_i32_b64": "s_clz_i32_u64",
    "s_flbit_i32": "s_cls_i32", "s_memtime": "s_memtime",
}  # fmt: skip
_OLD_ATOMICS = {
    "add": "add_u32", "sub": "sub_u32", "smin": "min_i32", "smax": "max_i32", "umin": "min_u32",
    "umax": "max_u32", "and": "and_b32", "or": "or_b32", "xor": "xor_b32", "swap": "swap_b32",
    "cmpswap": "cmpswap_b32", "add_x2": "add_u64", "smin_x2": "min_i64", "smax_x2": "max_i64",
    "umin_x2": "min_u64", "umax_x2": "max_u64", "and_x2": "and_b64", "or_x2": "or_b64",
    "xor_x2": "xor_b64", "swap_x2": "swap_b64", "cmpswap_x2": "cmpswap_b64",
}  # fmt: skip
_GFX9 |= {
    f"{space}_atomic_{old}": f"{space}_atomic_{new}"
    for space in ("global", "buffer", "flat")
    for old, new in _OLD_ATOMICS.items()
}

#: device limits: LDS bytes of a workgroup, vector registers of a SIMD lane and of one wave
_RDNA = {"lds": 65536, "vgprs": 1536, "wave_vgprs": 256, "granule": 24, "waves": 16}
GFX11 = Generation(
    "gfx11", 32, {"load": "vm", "store": "vs", "lds": "lgkm", "smem": "lgkm"}, _GFX11, limits=_RDNA
)
GFX12 = Generation(
    "gfx12", 32, {"load": "load", "store": "store", "lds": "ds", "smem": "km"},
    {**_GFX11, **_GFX12}, group_ids_in_ttmp=True, limits=_RDNA,
)  # fmt: skip
GFX9 = Generation(
    "gfx9", 64, {"load": "vm", "store": "vm", "lds": "lgkm", "smem": "lgkm"}, _GFX9,
    zeroes_high=True,
    limits={"lds": 65536, "vgprs": 512, "wave_vgprs": 512, "granule": 8, "waves": 8},
)  # fmt: skip
_TARGETS = {
    **dict.fromkeys(("gfx1100", "gfx1101", "gfx1102", "gfx1103"), GFX11),
    **dict.fromkeys(("gfx1150", "gfx1151", "gfx1152"), GFX11),
    **dict.fromkeys(("gfx1200", "gfx1201"), GFX12),
    "gfx942": GFX9,
}


def targets() -> tuple[str, ...]:
    """The targets that are modelled."""
    return tuple(_TARGETS)


def generation_of(target: str) -> Generation:
    """The generation of a target such as gfx1100. Raises UnknownTarget."""
    try:
        return _TARGETS[target.partition(":")[0]]
    except KeyError:
        known = ", ".join(_TARGETS)
        raise UnknownTarget(f"{target} is not a modelled target (known: {known})") from None
