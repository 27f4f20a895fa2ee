"""MACH008: other variables that change results, precision or speed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import case, of_row

_OWN = (
    "HSA_OVERRIDE_GFX_VERSION", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "LD_PRELOAD",
    "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "ROCBLAS_TENSILE_LIBPATH", "ROCM_PATH",
    "HIPBLASLT_TENSILE_LIBPATH", "TORCH_BLAS_PREFER_HIPBLASLT", "ROCBLAS_USE_HIPBLASLT",
    "VLLM_ROCM_USE_AITER", "BNB_ROCM_VERSION",
)  # fmt: skip
"""Variables that have a check of their own."""
_OFF = ("", "0", "false", "off")


def _meant(value: str, safe: str) -> bool:
    """Whether the table itself proposes this value: `LL128,Simple on MI350 ...`."""
    return bool(value) and safe.lower().startswith(value.lower())


def _row(value: str, risk: str, grade: str = "measured") -> dict[str, Any]:
    return {
        "value": value, "risk": risk, "grade": grade, "source": "the vendor's page",
        "meaning": "waits for each kernel", "affects": ["performance"], "safe": "unset",
    }  # fmt: skip


@check(
    "MACH008",
    Severity.WARNING,
    needs=("machine.variables",),
    good=(
        case(variables={"AMD_SERIALIZE_KERNEL": _row("0", "medium")}),
        case(variables={"NCCL_DEBUG": _row("WARN", "info")}),
        case(
            variables={"NCCL_PROTO": _row("LL128,Simple", "high") | {"safe": "LL128,Simple on x"}}
        ),
        case(variables={"HSA_ENABLE_SDMA": _row("1", "medium") | {"default": "1"}}),
    ),
    bad=(
        case(variables={"AMD_SERIALIZE_KERNEL": _row("3", "medium")}),
        case(variables={"HSA_DISABLE_CACHE": _row("1", "high")}),
        case(variables={"HSA_ENABLE_SDMA": _row("0", "medium") | {"default": "1"}}),
    ),
)
def variables(case: Case) -> Iterator[Finding]:
    """No variable left over from debugging changes results, precision or speed.

    Why: such a variable is set once, in a profile or an image, and forgotten; every later run
    is slower, or rounds otherwise, than the same run elsewhere.
    Fix: unset the ones that this run does not ask for.
    Source: the table of variables (env_vars.toml), which names a source for each row.
    """
    for name, row in case.value("machine.variables").items():
        if row.get("risk") not in ("medium", "high") or name in _OWN:
            continue
        if name.startswith(("PYTORCH_TUNABLEOP", "MIOPEN_DEBUG_CONV_", "HSA_OVERRIDE_GFX")):
            continue
        value, usual = row["value"].strip(), str(row.get("default", ""))
        off = value.lower() in _OFF and not usual.startswith(("1", "on", "true"))
        if off or usual.split(" ")[0].rstrip(";,") == value or _meant(value, row["safe"]):
            continue
        affects = ", ".join(row["affects"]) or "nothing on this machine"
        yield Finding(
            f"{name}={row['value'][:60]}: {row['meaning']}",
            (of_row(name, row["value"][:200], row),),
            why=f"affects {affects}",
            fix=f"unset {name} (safe: {row['safe']})" if row["safe"] else f"unset {name}",
        )
