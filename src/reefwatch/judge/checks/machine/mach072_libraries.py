"""MACH072: libraries without kernels for the card."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case, of_row

_ROW = {
    "status": "no", "note": "kernels for CDNA only", "source": "issue 83", "grade": "measured",
    "gfx": "gfx1100", "version": "0.0.33",
}  # fmt: skip


def _case(*rows: Any, **variables: str) -> Case:
    named = {k: {"value": v} for k, v in variables.items()}
    return case(GPU, torch_rocm=True, library_rows=list(rows), variables=named)


@check(
    "MACH072",
    Severity.WARNING,
    when=(AMD, "machine.torch_rocm"),
    needs=("machine.library_rows", "machine.variables"),
    good=(
        _case({**_ROW, "name": "accelerate", "status": "ok"}),
        _case(
            {**_ROW, "name": "flash-attn", "status": "build-from-source"},
            FLASH_ATTENTION_TRITON_AMD_ENABLE="TRUE",
        ),
    ),
    bad=(
        _case({**_ROW, "name": "xformers"}),
        _case({**_ROW, "name": "flash-attn", "status": "build-from-source"}),
    ),
)
def libraries(case: Case) -> Iterator[Finding]:
    """The libraries that are installed have kernels for the card.

    Why: a library installs on any machine; without kernels for the card its operators fail at the
    first call, or programs that find it installed take it and fail.
    Fix: uninstall it, so that programs take torch's own scaled_dot_product_attention; for
    flash-attn `export FLASH_ATTENTION_TRITON_AMD_ENABLE=TRUE` at build and at run.
    Source: libs.toml, which names a source for each library.
    """
    variables = case.value("machine.variables")
    triton = variables.get("FLASH_ATTENTION_TRITON_AMD_ENABLE", {}).get("value", "").upper()
    for row in case.value("machine.library_rows"):
        name, evidence = row["name"], (of_row(row["name"], row["version"], row),)
        if row["status"] == "no":
            yield Finding(
                f"{name} {row['version']} does not work on {row['gfx']}: {row['note'][:160]}",
                evidence,
                why=f"programs that take {name} because it is installed",
                fix=f"pip uninstall -y {name}",
            )
        elif name == "flash-attn" and row["status"] != "ok" and triton not in ("TRUE", "1"):
            yield Finding(
                f"flash-attn {row['version']} on {row['gfx']} without its Triton backend",
                evidence,
                why="attention: the CK backend is new on this card, or was not built for it",
                fix="export FLASH_ATTENTION_TRITON_AMD_ENABLE=TRUE (at build and at run), or use "
                "torch's scaled_dot_product_attention",
            )
