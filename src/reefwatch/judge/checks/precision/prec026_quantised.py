"""PREC026: 4-bit layers compute in 16 bits."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Place, Severity
from reefwatch.core.record import Case


@check(
    "PREC026",
    Severity.WARNING,
    needs=("precision.quantised",),
    when=("precision.quantised",),
    good=(Case.of(precision__quantised={"q": "bf16", "k": "f16"}),),
    bad=(
        Case.of(precision__quantised={"q": "f32", "k": "bf16"}),
        Case.of(precision__quantised={"q": "not set"}),
    ),
)
def quantised(case: Case) -> Iterator[Finding]:
    """The 4-bit layers of bitsandbytes compute in 16 bits.

    Reads `compute_dtype` of each `Linear4bit`.

    Why: the weights are unpacked into the compute dtype before each product. fp32, which is the
    default of `bnb_4bit_compute_dtype` in transformers, gives a product without matrix units, on
    twice the bytes; when it is not set, the first input decides.
    Fix: `BitsAndBytesConfig(bnb_4bit_compute_dtype=torch.bfloat16)`.
    Source: https://huggingface.co/docs/transformers/quantization/bitsandbytes; bitsandbytes pull
    request 2077 (https://github.com/bitsandbytes-foundation/bitsandbytes/pull/2077).
    """
    layers: dict[str, str] = case.value("precision.quantised")
    wide = {path: dtype for path, dtype in layers.items() if dtype not in ("bf16", "f16")}
    if wide:
        path, dtype = next(iter(wide.items()))
        yield Finding(
            f"{len(wide)} of {len(layers)} 4-bit layers have the compute dtype {dtype}",
            (Evidence("compute dtypes", wide, source="attributes"),),
            Place(path),
            fix="set bnb_4bit_compute_dtype to the dtype of the run",
        )
