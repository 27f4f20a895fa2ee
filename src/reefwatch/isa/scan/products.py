"""Are dot products done by the matrix core, and in which precision?"""

from __future__ import annotations

from collections import Counter

from reefwatch.isa.scan.finding import Found, at
from reefwatch.isa.text import Instruction, Program

MANY = 256  # fused multiply-adds at one source line that make a dot product likely
_FMA = ("v_fmac_f32", "v_fma_f32", "v_dual_fmac_f32", "v_pk_fma_f32", "v_fma_mix_f32",
        "v_fmac_f16", "v_fma_f16", "v_pk_fma_f16", "v_dot2_f32_f16", "v_dot2c_f32_f16",
        "v_mad_u32_u24", "v_mad_i32_i24", "v_dot4_i32_i8", "v_mul_lo_u32",
        "v_mad_u64_u32")  # fmt: skip


def matrix_use(program: Program) -> tuple[dict[str, int], list[Found]]:
    """How many matrix instructions of each kind; dot products without any; reduced precision."""
    matrix: Counter[str] = Counter()
    plain: dict[str, Counter[str]] = {}
    first: dict[str, Instruction] = {}
    reduced: Instruction | None = None
    for slot in program.slots:
        for instruction in slot:
            base = instruction.base
            if base.startswith(("v_wmma_", "v_mfma_", "v_smfmac_", "v_swmmac_")):
                matrix[base] += 1
                if base.endswith("xf32") and reduced is None:
                    reduced = instruction
            elif base in _FMA:
                name = base.replace("v_dual_", "v_")
                plain.setdefault(instruction.loc, Counter())[name] += 1
                first.setdefault(instruction.loc, instruction)
    found = []
    # operands of a dot product pass through LDS; a long polynomial does not
    shared = any(s[0].mnemonic.startswith(("ds_load", "ds_read")) for s in program.slots)
    if not matrix and shared:
        for loc, names in plain.items():
            name, count = names.most_common(1)[0]
            if count >= MANY:
                message = f"no matrix core: {count:,} {name} at one line of the source"
                found.append(at("no matrix core", message, first[loc]))
    if reduced is not None:
        found.append(at("reduced precision", "an fp32 dot product is computed in xf32, which keeps "
                        "10 bits of mantissa", reduced))  # fmt: skip
    return dict(matrix), found
