"""What each precision claim promises, in one table, and the one predicate that rows are held to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from reefwatch.core.claim import Tolerance
from reefwatch.core.dtypes import HIGH
from reefwatch.core.fact import Unknown
from reefwatch.core.finding import Coverage
from reefwatch.core.record import Case


@dataclass(frozen=True)
class Promise:
    """What a claim says of a run."""

    compute: str
    """Dtype of matmul and convolution, in the autocast region when `mixed`."""
    params: str
    mixed: bool = False
    tf32: bool = False
    """True when fp32 products may run in TF32."""


PROMISES: Mapping[str, Promise] = {
    "bf16-mixed": Promise("bf16", "f32", mixed=True),
    "fp16-mixed": Promise("f16", "f32", mixed=True),
    "bf16": Promise("bf16", "bf16"),
    "fp16": Promise("f16", "f16"),
    "fp32": Promise("f32", "f32"),
    "tf32": Promise("f32", "f32", tf32=True),
}
MIXED = "claim.precision=bf16-mixed|fp16-mixed"
PURE = "claim.precision=bf16|fp16"
FULL = "claim.precision=fp32|tf32"
COMPUTE = ("matmul", "conv")

PARAMS = Tolerance(
    0.01,
    "share of parameter bytes",
    "norm scales and biases, which some models keep apart on purpose, are under 1 % of the weights",
)


def high(row: Mapping[str, Any]) -> bool:
    """True when a matmul or convolution ran on fp32 (or fp64) operands.

    Only the first three operands count: an attention mask or a bias later on does not decide.
    """
    return row["kind"] in COMPUTE and any(dtype in HIGH for dtype in row["in"][:3])


def outer_product(row: Mapping[str, Any]) -> bool:
    """True when nothing is summed: two flops for each output element, at most.

    Position tables (rotary embeddings) are made this way, in fp32 on purpose, and no low-precision
    unit would do it faster.
    """
    elements = row["bytes"] / (8 if "f64" in row["out"] else 4)
    return bool(row["kind"] == "matmul" and 0 < row["flops"] <= 2 * elements)


def breaks_region(row: Mapping[str, Any]) -> bool:
    """True for a matmul or convolution that ran in fp32 inside a low-precision region.

    What autocast itself decided (`policy`: the products inside `cdist` or a decomposition) is part
    of the claim; so are outer products, where nothing is won.
    """
    return bool(row["region"] and high(row) and row["cause"] != "policy" and not outer_product(row))


def breach_message(row: Mapping[str, Any]) -> str:
    """What strict mode raises with."""
    where = f"{row['file']}:{row['line']}" if row["file"] else "no Python frame"
    module = f" in {row['module']}" if row["module"] else ""
    cause = f" ({row['cause']})" if row["cause"] else ""
    return (
        f"PREC001: {row['op']}{module} ran in {'/'.join(row['in'][:3])} inside a "
        f"{row['region']} region{cause}, at {where}"
    )


KEYS = Tolerance(
    1024,
    "keys",
    "from about a thousand keys on, the scores that plain attention writes out (4 MiB a head and "
    "sample in fp32 at 1024) outweigh the queries, keys and values of usual heads by far",
)
STATISTICS = (
    *("pow", "square", "mean", "var", "std", "rsqrt", "sqrt", "sum", "norm", "cumsum", "cumprod"),
    *("softmax", "exp", "log", "loss", "cross_entropy", "kl_div", "cosine_similarity", "cdist"),
)
"""What wants fp32 for its accuracy: sums over many elements, exponentials, losses."""


def needless(row: Mapping[str, Any]) -> bool:
    """True for an upcast written in a region whose fp32 goes into no statistic and no loss."""
    return bool(
        row["kind"] == "cast"
        and row["phase"] == "forward"
        and row["region"]
        and row["cause"] == "explicit upcast"
        and row["in"][:1] != ["f64"]
        and row["out"][:1] == ["f32"]
        and not any(_wants(fed) for fed in row.get("feeds", ()))
    )


def _wants(op: str) -> bool:
    """True for an op that wants fp32; torch's own norms take 16 bits and sum in fp32 themselves."""
    return not op.startswith("native_") and any(word in op for word in STATISTICS)


def left_out(row: Mapping[str, Any]) -> bool:
    """True for the backward of a module's fp32 product that was called outside every region."""
    return bool(
        high(row)
        and row["phase"] == "backward"
        and row["region"] is None
        and row["module"]
        and row["file"]
        and row["cause"] != "double backward"
        and not row.get("compiled")
        and not outer_product(row)
    )


def slow_breach(row: Mapping[str, Any]) -> str | None:
    """What strict mode says of a row that is no product in fp32, None when it breaks nothing.

    Rows of kind `compile` tell of a frame that dynamo gave up, of kind `kernel` of a kernel by its
    name, of kind `blas` of a library that stepped back; those with a `length` of plain attention.
    """
    if row["kind"] == "compile":
        return f"PREC001: a compiled frame went back to eager ({row['what']}): {row['why']}"
    if row["kind"] == "kernel" and row.get("naive") == "yes":
        return f"PREC001: a naive or generic kernel ran in a steady step: {row['name']}"
    if row["kind"] == "blas":
        return f"PREC001: the BLAS library was changed by torch: {row['why']}"
    length = row.get("length", 0)
    if length and KEYS.exceeded_by(length):
        where = f"{row['file']}:{row['line']}"
        return (
            f"PREC001: attention over {length} keys ran without a fused kernel "
            f"(the limit is {KEYS.limit:.0f}), at {where}"
        )
    return None


def compute_rows(case: Case) -> Iterator[Mapping[str, Any]]:
    """The matmuls and convolutions of the record."""
    return (event.data for event in case.rows("precision.op") if event.data["kind"] in COMPUTE)


def claimed(case: Case) -> str:
    """`bf16-mixed, by --claim`."""
    claim = case.evidence("claim.precision")
    return f"{claim.value}, by {claim.source}" if claim.source else str(claim.value)


def promise(case: Case) -> Promise:
    """What the claim of this case promises. Raises ValueError for a claim that is not known."""
    value = str(case.value("claim.precision"))
    if value not in PROMISES:
        raise ValueError(f"{value!r} is not a precision claim; known: {', '.join(PROMISES)}")
    return PROMISES[value]


def unentered(case: Case) -> str:
    """Why a mixed claim without a finding is unproven: it rests on an autocast region."""
    region = case.fact("precision.region")
    return region.reason if promise(case).mixed and isinstance(region, Unknown) else ""


def covers(case: Case) -> tuple[Coverage, ...]:
    """Examined steps, and modules with weights that were seen."""
    ops = case.known("precision.ops")
    if not ops:
        return ()
    return (
        Coverage("steps", ops["steps"], ops["steps_of"]),
        Coverage("modules", ops["modules_seen"], ops["modules_total"]),
    )


def mib(size: float) -> str:
    """`3.1 MiB`, or in KiB below a tenth of it."""
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 / 10 else f"{size / 2**10:.1f} KiB"
