"""Vector floating point against exact fractions, and against f64 where hardware is approximate."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from reefwatch.isa import blocks  # noqa: F401 - declares the instructions
from reefwatch.isa.arith import fma16, fma32, fma64
from reefwatch.isa.table import TABLE
from tests.isa import exact
from tests.isa.exact import NAN, pack, unpack
from tests.isa.one import fresh, get, put, run
from tests.isa.test_valu_int import instruction

CORNERS = {
    16: [0, 0x8000, 1, 0x3FF, 0x400, 0x3C00, 0xBC00, 0x3C01, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00,
         0x7E00, 0x1400, 0x5140],
    32: [0, 0x80000000, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0xBF800000, 0x3F800001, 0x7F7FFFFF,
         0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x33800000, 0x4B800001],
    64: [0, 1 << 63, 1, 0x3FF0000000000000, 0xBFF0000000000001, 0x7FEFFFFFFFFFFFFF,
         0x7FF0000000000000, 0x7FF8000000000000, 0x3CA0000000000000],
}  # fmt: skip
LANES = 32 * 24


def number(bits: int, width: int):
    return unpack(bits, width)


def best(values: list, pick: Callable):
    numbers = [value for value in values if value != NAN]
    return pick(numbers) if numbers else NAN


def middle(a, b, c):
    return min(a, b, c) if NAN in (a, b, c) else sorted((a, b, c))[1]


def whole(function: Callable) -> Callable:
    return lambda x: x if isinstance(x, float | str) else Fraction(function(x))


def plus(x, y):
    if NAN in (x, y):
        return NAN
    if isinstance(x, float) or isinstance(y, float):
        both = isinstance(x, float) and isinstance(y, float)
        return NAN if both and x != y else x if isinstance(x, float) else y
    return x + y


def minus(x):
    return x if x == NAN else -x


#: on values: Fractions, infinities and "nan"
OPERATIONS: dict[str, Callable] = {
    "add": plus,
    "sub": lambda x, y: plus(x, minus(y)),
    "subrev": lambda x, y: plus(y, minus(x)),
    "mul": exact.times,
    "fma": lambda x, y, z: plus(exact.times(x, y), z),
    "max": lambda x, y: best([x, y], max),
    "min": lambda x, y: best([x, y], min),
    "max3": lambda x, y, z: best([x, y, z], max),
    "min3": lambda x, y, z: best([x, y, z], min),
    "maxmin": lambda x, y, z: best([best([x, y], max), z], min),
    "minmax": lambda x, y, z: best([best([x, y], min), z], max),
    "rndne": whole(round),
    "trunc": whole(math.trunc),
    "ceil": whole(math.ceil),
    "floor": whole(math.floor),
}
CASES = [
    (f"v_{name}_f{width}", name, width)
    for name in OPERATIONS
    for width in (16, 32, 64)
    if f"v_{name}_f{width}" in TABLE.lane
]


def samples(width: int, count: int, rng: random.Random) -> list[tuple[int, ...]]:
    out = [tuple(rng.choice(CORNERS[width]) for _ in range(count)) for _ in range(LANES // 2)]
    exponent_bits, mantissa_bits = exact.FORMATS[width]
    while len(out) < LANES:  # near exponents, so that sums round in interesting places
        near = rng.randrange(1, (1 << exponent_bits) - 1)
        row = []
        for _ in range(count):
            power = min(max(near + rng.randrange(-3, 4), 0), (1 << exponent_bits) - 2)
            fraction = rng.getrandbits(mantissa_bits) >> rng.randrange(mantissa_bits)
            row.append(rng.getrandbits(1) << width - 1 | power << mantissa_bits | fraction)
        out.append(tuple(row))
    return out


def same(got: int, wanted: int | str, width: int) -> bool:
    """Equal patterns; any NaN is any other, and zeros of both signs are one."""
    if wanted == NAN:
        return exact.is_nan(got, width)
    zero = (1 << width - 1) - 1
    return got == wanted or (got & zero == 0 and wanted & zero == 0)


@pytest.mark.parametrize(("mnemonic", "name", "width"), CASES)
def test_agrees_with_fractions(mnemonic: str, name: str, width: int) -> None:
    row = TABLE.lane[mnemonic]
    values = samples(width, len(row.reads), random.Random(mnemonic))
    st = fresh(waves=LANES // 32)
    for n in range(len(row.reads)):
        put(st, 8 + 2 * n, [value[n] for value in values], max(width, 32))
    run(st, instruction(mnemonic, row))
    for value, got in zip(values, get(st, 2, width), strict=True):
        wanted = pack(OPERATIONS[name](*(number(bits, width) for bits in value)), width)
        assert same(got, wanted, width), [hex(bits) for bits in value]


@pytest.mark.parametrize(("function", "width"), [(fma16, 16), (fma32, 32), (fma64, 64)])
def test_fma_rounds_once(function: Callable, width: int) -> None:
    """Sums that lie on a tie of the narrow format but for a far-away bit."""
    rng = random.Random(width)
    exponent_bits, mantissa_bits = exact.FORMATS[width]
    bias = (1 << exponent_bits - 1) - 1
    values = []
    for _ in range(400):
        a = bias << mantissa_bits | rng.getrandbits(mantissa_bits)
        b = bias << mantissa_bits | rng.getrandbits(mantissa_bits)
        gap = rng.randrange(-2 * mantissa_bits, 2 * mantissa_bits)
        power = min(max(bias + gap, 0), 2 * bias)
        c = rng.getrandbits(1) << width - 1 | power << mantissa_bits | rng.getrandbits(3)
        values.append((a, b, c))
    kind, unsigned = {16: (np.float16, np.uint16), 32: (np.float32, np.uint32),
                      64: (np.float64, np.uint64)}[width]  # fmt: skip
    columns = [np.array([v[n] for v in values], unsigned).view(kind) for n in range(3)]
    got = function(*columns).view(unsigned)
    for value, bits in zip(values, got, strict=True):
        assert int(bits) == pack(exact.fma(*value, width), width), [hex(v) for v in value]


def test_division_by_its_helpers_is_exact() -> None:
    """The sequence compilers emit for a / b must round correctly, denormals included."""
    rng = random.Random(3)
    pairs = []
    for _ in range(LANES):
        pick = [rng.getrandbits(1) << 31 | rng.randrange(0, 255) << 23 | rng.getrandbits(23)
                for _ in range(2)]  # fmt: skip
        pairs.append(tuple(pick))
    corners = CORNERS[32]
    pairs[: len(corners) ** 2] = [(a, b) for a in corners for b in corners]
    st = fresh(waves=LANES // 32)
    put(st, 1, [a for a, _ in pairs])
    put(st, 2, [b for _, b in pairs])
    run(st, """v_div_scale_f32 v3, null, v2, v2, v1
        v_div_scale_f32 v4, vcc_lo, v1, v2, v1
        v_rcp_f32_e32 v5, v3
        v_fma_f32 v6, -v3, v5, 1.0
        v_fmac_f32_e32 v5, v6, v5
        v_mul_f32_e32 v7, v4, v5
        v_fma_f32 v6, -v3, v7, v4
        v_fmac_f32_e32 v7, v6, v5
        v_fma_f32 v6, -v3, v7, v4
        v_div_fmas_f32 v6, v6, v5, v7
        v_div_fixup_f32 v6, v6, v2, v1""")  # fmt: skip
    for (a, b), got in zip(pairs, get(st, 6), strict=True):
        x, y = unpack(a, 32), unpack(b, 32)
        if NAN in (x, y) or (x == 0 and y == 0) or (isinstance(x, float) and isinstance(y, float)):
            wanted: int | str = NAN
        elif y == 0 or isinstance(x, float):
            wanted = 0x7F800000 | (a ^ b) & 0x80000000
        elif isinstance(y, float):
            wanted = 0
        else:
            wanted = pack(x / y, 32)
        assert same(got, wanted, 32), (hex(a), hex(b), hex(got), wanted)


def test_unary_f16_of_every_value() -> None:
    everything = list(range(65536))
    values = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float64)
    with np.errstate(all="ignore"):
        wanted = {
            "v_rcp_f16": 1 / values,
            "v_sqrt_f16": np.sqrt(values),
            "v_rsq_f16": 1 / np.sqrt(values),
            "v_exp_f16": np.exp2(values),
            "v_log_f16": np.log2(values),
            "v_floor_f16": np.floor(values),
            "v_cvt_f32_f16": values,
        }
        for name, result in wanted.items():
            st = fresh(waves=2048)
            put(st, 8, everything)
            run(st, f"{name}_e32 v2, v8")
            kind = np.float32 if name == "v_cvt_f32_f16" else np.float16
            bits = np.array(get(st, 2), np.uint32)
            got = bits.view(np.float32) if kind is np.float32 else bits.astype(np.uint16).view(kind)
            assert np.array_equal(got, result.astype(kind), equal_nan=True), name


@pytest.mark.parametrize(
    ("name", "function"),
    [("exp", np.exp2), ("log", np.log2), ("rcp", lambda x: 1 / x),
     ("rsq", lambda x: 1 / np.sqrt(x)), ("sqrt", np.sqrt),
     ("sin", lambda x: np.sin(2 * np.pi * x)), ("cos", lambda x: np.cos(2 * np.pi * x))],
)  # fmt: skip
def test_approximate_f32_lies_within_one_ulp(name: str, function: Callable) -> None:
    rng = np.random.default_rng(1)
    values = (rng.standard_normal(LANES) * 10.0 ** rng.integers(-3, 2, LANES)).astype(np.float32)
    st = fresh(waves=LANES // 32)
    put(st, 8, values.view(np.uint32))
    run(st, f"v_{name}_f32_e32 v2, v8")
    with np.errstate(all="ignore"):
        wanted = function(values.astype(np.longdouble))
    got = np.array(get(st, 2), np.uint32).view(np.float32)
    size = np.spacing(np.abs(wanted).astype(np.float32)) + np.float32(1e-9)
    good = np.isnan(wanted) & np.isnan(got) | (np.abs(got - wanted) <= size)
    assert good.all()


def test_signs_clamp_and_output_scale() -> None:
    st = fresh()
    put(st, 8, np.array([3.0, -3.0, 0.25, np.nan] * 8, np.float32).view(np.uint32))
    run(st, "v_add_f32_e64 v2, -v8, |v8|\nv_mul_f32_e64 v3, v8, 1.0 clamp\n"
        "v_mul_f32_e64 v4, v8, 2.0 mul:2\nv_mul_f32_e64 v5, v8, 2.0 div:2")  # fmt: skip

    def floats(row: int) -> list[float]:
        return np.array(get(st, row)[:4], np.uint32).view(np.float32).tolist()

    assert floats(2)[:3] == [0.0, 6.0, 0.0] and math.isnan(floats(2)[3])
    assert floats(3) == [1.0, 0.0, 0.25, 0.0]
    assert floats(4)[:3] == [12.0, -12.0, 1.0]
    assert floats(5)[:3] == [3.0, -3.0, 0.25]


def test_denormals_are_flushed_only_where_the_program_says() -> None:
    st = fresh()
    put(st, 8, [0x00000100] * 32)
    run(st, "v_add_f32_e32 v2, v8, v8")
    assert get(st, 2) == [0x200] * 32
    run(st, "v_add_f32_e32 v2, v8, v8", denormals=False)
    assert get(st, 2) == [0] * 32


def test_classes() -> None:
    patterns = [0x7F800001, 0x7FC00000, 0xFF800000, 0xBF800000, 0x80000001, 0x80000000, 0,
                1, 0x3F800000, 0x7F800000]  # fmt: skip
    st = fresh()
    put(st, 8, patterns)
    for bit in range(10):
        put(st, 10, [1 << bit] * 32)
        run(st, "v_cmp_class_f32_e64 s20, v8, v10")
        assert int(st.S[20][0]) & 0x3FF == 1 << bit
