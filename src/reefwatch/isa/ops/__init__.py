"""The instruction families; importing this declares them all in `table.TABLE`."""

from reefwatch.isa.ops import (
    compare,
    control,
    convert,
    lane,
    lds,
    matrix,
    packed,
    salu,
    smem,
    valu_float,
    valu_int,
    vmem,
)

__all__ = [
    "compare", "control", "convert", "lane", "lds", "matrix", "packed", "salu", "smem",
    "valu_float", "valu_int", "vmem",
]  # fmt: skip
