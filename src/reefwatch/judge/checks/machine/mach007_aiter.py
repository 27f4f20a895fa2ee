"""MACH007: AITER kernels in vLLM."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case, known, shown, title

_NAME = "VLLM_ROCM_USE_AITER"
_ON = {_NAME: {"value": "1"}}


@check(
    "MACH007",
    Severity.WARNING,
    when=(AMD,),
    needs=("machine.variables", "machine.gpus"),
    good=(case(GPU, variables={}), case(GPU | {"gfx": "gfx942"}, variables=_ON)),
    bad=(case(GPU, variables=_ON), case(GPU | {"gfx": "gfx1201"}, variables=_ON)),
)
def aiter(case: Case) -> Iterator[Finding]:
    """AITER's kernels are asked for on the cards that they are made for only.

    Why: they are made for gfx942 and gfx950; on other cards vLLM crashes in its first layers.
    Fix: `unset VLLM_ROCM_USE_AITER`.
    Source: failures of vLLM on gfx1201 (public reports); libs.toml, aiter.
    """
    variables = case.value("machine.variables")
    if variables.get(_NAME, {}).get("value", "0").strip().lower() not in ("1", "true"):
        return
    for gpu in shown(case):
        gfx = known(gpu["gfx"])
        if gfx and gfx not in ("gfx942", "gfx950"):
            yield Finding(
                f"{_NAME}=1 on {title(gpu)} ({gfx})",
                (Evidence(_NAME, "1", source="the environment"),),
                why="serving with vLLM: these kernels are for gfx942 and gfx950",
                fix=f"unset {_NAME}",
            )
