"""PREC046: what casts cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.fact import Evidence, Grade
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge import traces
from reefwatch.judge.traces import Row

SHARE = Tolerance(
    0.05, "share of device time", "autocast of a plain model spends 1 to 4 % on casts"
)
_CAST: dict[str, Any] = {
    "name": "void at::native::vectorized_elementwise_kernel<4, "
    "at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}>",
    "library": "aten",
    "compute_dtype": "mixed",
    "role": "cast",
    "matrix_core": "no",
    "op": "aten::copy_",
    "in": ["bf16", "f32"],
}


@check(
    "PREC046",
    Severity.WARNING,
    needs=("trace.kernels",),
    good=(
        Case.of(traces.example(), traces.example(**(_CAST | {"seconds": 1e-5})), **traces.FACTS),
    ),
    bad=(Case.of(traces.example(), traces.example(**_CAST), **traces.FACTS),),
)
def casts(case: Case) -> Iterator[Finding]:
    """Casts between dtypes take a small part of the device time.

    Kernels that copy from one float dtype to another. Their time is the price of mixed precision,
    on its own line.

    Why: weights that are cast again on each call (not leaves, or without gradients), tensors that
    go to fp32 and back around a norm or a softmax.
    Fix: the places are ranked: keep the tensor in one dtype there; hold weights of frozen modules
    in low precision.
    Source: https://docs.pytorch.org/docs/stable/amp.html
    """
    whole = traces.total(case)
    casting = [row for row in traces.rows(case) if row["role"] == "cast"]
    share = traces.seconds(casting) / whole
    if not SHARE.exceeded_by(share):
        return
    groups = traces.by_place(casting)
    first = groups[0]
    grade = Grade.MEASURED if all(map(_seen, casting)) else Grade.BY_NAME
    yield Finding(
        f"casts took {share:.1%} of the device time, in {len(groups)} places",
        (
            *traces.told(casting, whole, grade),
            Evidence("share of the costliest place", traces.seconds(first) / whole, "share"),
        ),
        traces.place(first),
        why=f"the costliest place: {traces.cost(first, whole)}",
        cost=traces.cost(casting, whole),
        fix="keep the tensor in one dtype there; hold frozen weights in low precision",
    )


def _seen(row: Row) -> bool:
    """True when the op's own operands differ in dtype."""
    return len({dtype for dtype in row["in"] if dtype.startswith(("f", "bf"))}) > 1
