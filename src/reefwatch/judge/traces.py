"""Rows of a profiler trace as the checks read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from reefwatch.core.claim import Tolerance
from reefwatch.core.fact import Evidence, Grade
from reefwatch.core.finding import Coverage, Place
from reefwatch.core.record import Case, Event

Row = Mapping[str, Any]
PRODUCTS = ("gemm", "conv", "attention")
LOW = ("bf16", "fp16", "fp8", "int8")
_WORDS = {"f32": "fp32", "f64": "fp64", "f16": "fp16", "f8e4m3": "fp8", "f8e5m2": "fp8"}
NAMELESS = Tolerance(
    0.1,
    "share of device time",
    "names that tell nothing: a verdict on less than nine tenths of the time proves little",
)


def rows(case: Case) -> Iterator[Row]:
    """All kernels of the trace, one row for each kernel and op."""
    return (event.data for event in case.rows("trace.kernel"))


def products(case: Case) -> list[Row]:
    """The kernels of matmul, convolution and attention."""
    return [row for row in rows(case) if row["role"] in PRODUCTS]


def seconds(some: Iterable[Row]) -> float:
    """Device time."""
    return float(sum(row["seconds"] for row in some))


def total(case: Case) -> float:
    """Device time of the whole trace."""
    told: Mapping[str, Any] = case.value("trace.kernels")
    return float(told["seconds"]) or 1.0


def operand(row: Row) -> str:
    """The dtype of the op's first float operands, "" when the trace does not tell."""
    kinds = [dtype for dtype in row["in"][:3] if dtype.startswith(("f", "bf"))]
    return _WORDS.get(kinds[0], kinds[0]) if kinds else ""


def dtype_of(row: Row) -> tuple[str, Grade]:
    """What a product was computed in: by the op's operands, else by the kernel's name."""
    told = operand(row)
    return (told, Grade.MEASURED) if told else (row["compute_dtype"], Grade.BY_NAME)


def by_place(some: Iterable[Row]) -> list[list[Row]]:
    """The rows of one place and op together, the costliest first."""
    places: dict[tuple[Any, ...], list[Row]] = {}
    for row in some:
        op = "" if row["file"] else row["op"]
        places.setdefault((row["module"], row["file"], row["line"], op, row["phase"]), []).append(
            row
        )
    return sorted(places.values(), key=lambda group: -seconds(group))


def place(group: list[Row]) -> Place:
    """Where the costliest of these rows was called."""
    row = max(group, key=lambda row: row["seconds"])
    return Place(row["module"], row["op"], row["file"], row["line"])


def told(group: list[Row], of: float, grade: Grade) -> tuple[Evidence, ...]:
    """The evidence of a group: its kernel, its calls, its time."""
    row = max(group, key=lambda row: row["seconds"])
    return (
        Evidence("kernel", row["name"], source="profiler", grade=grade),
        Evidence("calls", sum(row["calls"] for row in group), source="profiler"),
        Evidence("device time", seconds(group), "s", "profiler"),
        Evidence("share of device time", seconds(group) / of, "share", "profiler"),
    )


def cost(group: list[Row], of: float) -> str:
    """`12.3 ms, 4.1% of the device time`."""
    spent = seconds(group)
    return f"{spent * 1e3:.3g} ms, {spent / of:.1%} of the device time"


def unnamed(field: str, among: Callable[[Case], Iterable[Row]]) -> Callable[[Case], str]:
    """A check's doubt: too much of the time is spent in kernels whose names do not tell."""

    def doubt(case: Case) -> str:
        some = list(among(case))
        mute = [row for row in some if row[field] == "unknown" and not _by_op(row, field)]
        share = seconds(mute) / (seconds(some) or 1.0)
        if not NAMELESS.exceeded_by(share):
            return ""
        first = max(mute, key=lambda row: row["seconds"])
        return (
            f"{share:.0%} of that time is in kernels whose names do not tell: {first['name'][:60]}"
        )

    return doubt


def _by_op(row: Row, field: str) -> bool:
    return field == "compute_dtype" and bool(operand(row))


def covers(field: str, among: Callable[[Case], Iterable[Row]]) -> Callable[[Case], Any]:
    """A check's coverage: the device time of the kernels whose names tell."""

    def covered(case: Case) -> tuple[Coverage, ...]:
        some = list(among(case))
        known = [row for row in some if row[field] != "unknown" or _by_op(row, field)]
        if not some:
            return ()
        return (Coverage("seconds of device time", seconds(known), seconds(some)),)

    return covered


def example(**changed: Any) -> Event:
    """A row for the cases of a check."""
    row: dict[str, Any] = {
        "name": "nvjet_tst_128x128_64x4_1x2_h_bz_TNT",
        "library": "cublas",
        "compute_dtype": "bf16",
        "accumulate_dtype": "fp32",
        "matrix_core": "yes",
        "naive": "no",
        "role": "gemm",
        "op": "aten::mm",
        "in": ["bf16", "bf16"],
        "shapes": "[64, 64] x [64, 64]",
        "phase": "forward",
        "attention": "",
        "calls": 4,
        "seconds": 0.01,
        "steps": [0, 1],
        "module": "Linear_0",
        "file": "train.py",
        "line": 7,
    }
    row |= changed
    return Event("trace.kernel", row, id=str(row["name"]) + str(row["op"]) + str(row["phase"]))


FACTS: dict[str, Any] = {
    "trace__kernels": {"count": 8, "seconds": 0.02},
    "trace__products": {"role": {"gemm": 0.02}},
    "trace__attention": True,
    "trace__convolution": True,
}
"""The facts of a small trace, for the cases of a check."""
