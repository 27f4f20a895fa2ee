"""Small kernels written by hand, with the directives that a launch needs."""

from __future__ import annotations

_HEAD = """\t.amdgcn_target "amdgcn-amd-amdhsa--{target}"
\t.text
{name}:
\t.file\t1 "tests" "kernel.py"
\t.loc\t1 7 0
"""
_TAIL = """
\ts_endpgm
\t.section .rodata,"a",@progbits
\t.amdhsa_kernel {name}
\t\t.amdhsa_group_segment_fixed_size {lds}
\t\t.amdhsa_private_segment_fixed_size {scratch}
\t\t.amdhsa_kernarg_size {kernarg}
\t\t.amdhsa_user_sgpr_count {users}
\t\t.amdhsa_wavefront_size32 {wave32}
\t\t.amdhsa_system_sgpr_workgroup_id_x 1
\t\t.amdhsa_next_free_vgpr 32
\t\t.amdhsa_next_free_sgpr 32
\t\t.amdhsa_float_denorm_mode_32 {denorm}
\t\t.amdhsa_float_denorm_mode_16_64 3
\t.end_amdhsa_kernel
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .args:
{args}
    .max_flat_workgroup_size: {items}
    .name:           {name}
    .wavefront_size: {wave}
...
\t.end_amdgpu_metadata
"""


def program(
    body: str, *, target: str = "gfx1100", pointers: int = 2, scalars: int = 0, waves: int = 1,
    lds: int = 0, scratch: int = 0, denorm: int = 3, name: str = "kernel",
) -> str:  # fmt: skip
    """A kernel text; arguments are pointers, then 4-byte scalars. Block ids are in s2 (s15)."""
    wave = 64 if target == "gfx942" else 32
    args, offset = [], 0
    for size, kind in [(8, "global_buffer")] * pointers + [(4, "by_value")] * scalars:
        args.append(
            f"      - .offset: {offset}\n        .size: {size}\n        .value_kind: {kind}"
        )
        offset += size
    lines = "\n".join(f"\t{line.strip()}" if ":" not in line.split()[0] else line.strip()
                      for line in body.strip().split("\n") if line.strip())  # fmt: skip
    return (_HEAD + lines + _TAIL).format(
        target=target, name=name, lds=lds, scratch=scratch, kernarg=offset, users=2,
        wave32=int(wave == 32), denorm=denorm, args="\n".join(args), items=waves * wave, wave=wave,
    )  # fmt: skip


#: loads both pointers into s[4:7] and the byte offset of the lane into v1
START = """
    s_load_b128 s[4:7], s[0:1], 0x0
    v_lshlrev_b32_e32 v1, 2, v0
    s_waitcnt lgkmcnt(0)
"""
