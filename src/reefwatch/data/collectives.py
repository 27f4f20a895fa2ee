"""Names that `reefwatch dist` knows, without torch."""

from __future__ import annotations

DTYPES = (
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "complex64",
    "complex128",
    "int8",
    "uint8",
    "int16",
    "int32",
    "int64",
    "bool",
)
FORMS = (
    "broadcast",
    "all_gather",
    "all_gather_uneven",
    "all_gather_into_tensor",
    "all_gather_single",
    "gather",
    "scatter",
    "all_to_all",
    "all_to_all_single",
    "all_to_all_single_uneven",
    "send_recv",
    "batch_isend_irecv",
    "all_reduce",
    "reduce",
    "reduce_scatter_tensor",
    "reduce_scatter_single",
    "reduce_scatter_uneven",
    "all_reduce_coalesced",
    "functional",
    "objects",
    "barrier",
)
PHASES = (
    "matrix",
    "subgroups",
    "concurrency",
    "replay",
    "ddp",
    "fsdp",
    "training",
    "tensor",
    "checkpoints",
    "bandwidth",
    "large",
    "mismatch",
)
"""In the order in which they are run."""
