"""What the tables say of a target: matrix types, FP8 variant, attention and BLAS gates."""

from __future__ import annotations

from typing import Any

from reefwatch.data.tables import Tables


def about(tables: Tables, gfx: str) -> dict[str, Any]:
    """Facts of a target from the tables; what they do not list is `unknown`."""
    row = tables.gpus.get("arch", {}).get(gfx, {})
    rocm = tables.rocm
    attention = rocm.get("aotriton", {})
    blas = rocm.get("hipblaslt", {}).get("torch", {})
    return {
        "family": str(row.get("family", "unknown")),
        "wavefront": row.get("wavefront", 0),
        "matrix": list(row.get("matrix_dtypes", ())),
        "fp8": _fp8(row),
        "override": str(row.get("hsa_override", "")),
        "official": str(row.get("legacy_rocm_official", "unknown")),
        "attention": _attention(attention, gfx),
        "hipblaslt": _blas(blas, gfx),
        "note": str(row.get("note", "")),
    }


def _fp8(row: Any) -> str:
    """`fnuz`, `ocp` or `none`: the encodings differ, and so do the largest values (240, 448)."""
    if not row:
        return "unknown"
    if "fp8" not in row.get("matrix_dtypes", ()):
        return "none"
    return "fnuz" if "FNUZ" in str(row.get("note", "")) else "ocp"


def _attention(row: Any, gfx: str) -> str:
    if gfx in row.get("no_kernel", ()):
        return "none"
    newest = [name for name in row if name.startswith("targets_")]
    return "kernels" if any(gfx in row[name] for name in newest) else "unknown"


def _blas(row: Any, gfx: str) -> str:
    for word in ("preferred", "supported"):
        if any(gfx in part.get("arch", ()) for part in row.get(word, ())):
            return word
    return "not listed" if gfx in row.get("not_listed", ()) else "unknown"
