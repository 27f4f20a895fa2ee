"""Matrix instructions: entry by entry where the layouts of AMD's calculator put it.

The places are own formulas, compared with the register tables that AMD's matrix instruction
calculator (https://github.com/ROCm/amd_matrix_instruction_calculator) prints for RDNA3, RDNA4 and
CDNA3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from reefwatch.isa import blocks  # noqa: F401 - declares the instructions
from reefwatch.isa.emit import Refused
from reefwatch.isa.generations import GFX9, GFX11, GFX12, Generation
from reefwatch.isa.observers import ALL, Observers
from reefwatch.isa.small_floats import decode8
from tests.isa.one import fresh, run

Place = tuple[int, int, int]  # register, lane, element of the register


def rdna3_in(i: int, k: int, per: int) -> list[Place]:
    """Both lane halves hold the whole row."""
    return [(k // per, i, k % per), (k // per, i + 16, k % per)]


def rdna4_in(i: int, k: int, per: int) -> list[Place]:
    """Two registers of the lower lanes, then two of the upper ones, and so on."""
    run_ = 2 * per
    return [(k // (2 * run_) * 2 + k % run_ // per, i + 16 * (k // run_ % 2), k % per)]


def cdna3_in(rows: int, depth: int) -> Callable[[int, int, int], list[Place]]:
    """Each group of `rows` lanes holds an equal part of the depth."""

    def place(i: int, k: int, per: int) -> list[Place]:
        share = depth * rows // 64
        return [(k % share // per, i + rows * (k // share), k % per)]

    return place


def rdna3_out(i: int, j: int) -> tuple[int, int]:
    return i // 2, j + 16 * (i % 2)


def rdna4_out(i: int, j: int) -> tuple[int, int]:
    return i % 8, j + 16 * (i // 8)


def cdna3_out(rows: int) -> Callable[[int, int], tuple[int, int]]:
    groups = 64 // rows

    def place(i: int, j: int) -> tuple[int, int]:
        return i // (4 * groups) * 4 + i % 4, j + rows * (i // 4 % groups)

    return place


class Form(NamedTuple):
    text: str
    generation: Generation
    rows: int
    depth: int
    kind: str
    inputs: Callable[[int, int, int], list[Place]]
    outputs: Callable[[int, int], tuple[int, int]]


def mfma(shape: str, kind: str, total: str = "f32") -> Form:
    rows, depth = int(shape.split("x")[0]), int(shape.split("x")[2])
    a = (
        depth
        * {"f16": 16, "bf16": 16, "xf32": 32, "f32": 32, "i8": 8, "fp8": 8}[kind]
        * rows
        // 2048
    )
    c = rows * rows // 64
    name = f"v_mfma_{total}_{shape}_{kind + ('_fp8' if kind == 'fp8' else '')}"
    text = f"{name} v[32:{31 + c}], {span(0, a)}, {span(8, a)}, v[32:{31 + c}]"
    return Form(text, GFX9, rows, depth, kind, cdna3_in(rows, depth), cdna3_out(rows))


def span(first: int, count: int) -> str:
    return f"v[{first}:{first + count - 1}]" if count > 1 else f"v{first}"


def wmma(generation: Generation, kind: str, total: str = "f32", more: str = "") -> Form:
    bits = {"f16": 16, "bf16": 16, "iu8": 8, "fp8_fp8": 8}[kind]
    a = 16 * bits // 32 // (1 if generation is GFX11 else 2)
    text = f"v_wmma_{total}_16x16x16_{kind} v[32:39], {span(0, a)}, {span(8, a)}, v[32:39]{more}"
    place = (rdna3_in, rdna3_out) if generation is GFX11 else (rdna4_in, rdna4_out)
    return Form(text, generation, 16, 16, kind.split("_")[0], *place)


FORMS = [
    wmma(GFX11, "f16"), wmma(GFX11, "bf16"), wmma(GFX11, "iu8", "i32", " neg_lo:[1,1,0]"),
    wmma(GFX12, "f16"), wmma(GFX12, "bf16"), wmma(GFX12, "iu8", "i32", " neg_lo:[1,1,0]"),
    wmma(GFX12, "fp8_fp8"),
    mfma("32x32x8", "f16"), mfma("16x16x16", "f16"), mfma("32x32x8", "bf16"),
    mfma("16x16x16", "bf16"), mfma("32x32x4", "xf32"), mfma("16x16x8", "xf32"),
    mfma("32x32x2", "f32"), mfma("16x16x4", "f32"), mfma("32x32x16", "i8", "i32"),
    mfma("16x16x32", "i8", "i32"), mfma("32x32x16", "fp8"), mfma("16x16x32", "fp8"),
]  # fmt: skip
BITS = {"f16": 16, "bf16": 16, "iu8": 8, "i8": 8, "fp8": 8, "xf32": 32, "f32": 32}


def encode(kind: str, value: int, fnuz: bool) -> int:
    """A small integer as the element type's pattern."""
    if kind in ("iu8", "i8"):
        return value & 255
    if kind == "f16":
        return int(np.float16(value).view(np.uint16))
    if kind == "fp8":
        return int(np.flatnonzero(decode8("fp8", fnuz) == value)[0])
    bits = int(np.float32(value).view(np.uint32))
    return bits >> 16 if kind == "bf16" else bits


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.generation.name} {form.text[:26]}")
def test_every_entry_where_the_calculator_has_it(form: Form) -> None:
    rng = np.random.default_rng(7)
    a = rng.integers(-7, 8, (form.rows, form.depth))
    b = rng.integers(-7, 8, (form.depth, form.rows))
    c = rng.integers(-99, 99, (form.rows, form.rows))
    st = fresh(waves=2, generation=form.generation)
    bits = BITS[form.kind]
    per = 32 // bits
    for first, entries in ((0, a), (8, b.T)):
        for (i, k), value in np.ndenumerate(entries):
            pattern = encode(form.kind, int(value), form.generation is GFX9)
            for register, lane, part in form.inputs(i, k, per):
                st.V[first + register, :, lane] |= np.uint32(pattern << bits * part)
    integers = form.kind in ("iu8", "i8")
    kind = np.int32 if integers else np.float32
    for (i, j), value in np.ndenumerate(c):
        register, lane = form.outputs(i, j)
        st.V[32 + register, :, lane] = kind(value).view(np.uint32)
    st.observers = Observers([ALL["matrices"]()])
    run(st, form.text, form.generation)
    assert not st.observers.reports
    wanted = a @ b + c
    for (i, j), value in np.ndenumerate(wanted):
        register, lane = form.outputs(i, j)
        assert (st.V[32 + register].view(kind)[:, lane] == value).all(), (i, j)


def test_unsigned_bytes_and_clamp() -> None:
    st = fresh()
    st.V[0:4] = 0xFFFFFFFF
    st.V[8:12] = 0xFFFFFFFF
    st.V[32:40] = 0x7FFFFFF0
    text = "v_wmma_i32_16x16x16_iu8 v[40:47], v[0:3], v[8:11], "
    run(st, f"{text}0\n{text.replace('40:47', '48:55')}v[32:39] clamp")
    assert (st.V[40] == 16 * 255 * 255).all()
    assert (st.V[48] == 0x7FFFFFFF).all()


def test_operands_that_differ_by_half_and_missing_lanes_are_reported() -> None:
    st = fresh()
    st.observers = Observers([ALL["matrices"]()])
    st.V[0, 0, 20] = 1
    text = "v_wmma_f32_16x16x16_f16 v[32:39], v[0:7], v[8:15], 0"
    run(st, text)
    assert [r.kind for r in st.observers.reports.values()] == ["matrix operands"]
    st = fresh()
    st.observers = Observers([ALL["matrices"]()])
    st.S[126][...] = 0xFFFFFFFE
    run(st, text)
    assert "EXEC" in next(iter(st.observers.reports.values())).message


@pytest.mark.parametrize(
    "text",
    [
        "v_wmma_f16_16x16x16_f16 v[32:39], v[0:7], v[8:15], v[32:39]",
        "v_wmma_f32_16x16x16_f16 v[32:39], v[0:7], v[8:15], v[32:39] neg_lo:[1,0,0]",
        "v_wmma_f32_16x16x16_f16 v[32:39], v[0:3], v[8:11], v[32:39]",
        "v_mfma_f32_32x32x8_f16 v[32:47], v[0:1], v[8:9], 0 cbsz:1",
    ],
)
def test_what_is_not_modelled_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        run(fresh(), text)
