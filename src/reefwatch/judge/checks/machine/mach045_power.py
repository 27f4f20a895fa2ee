"""MACH045: the power limit that somebody set."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case, devices, known, title

_LOWER = Tolerance(0.1, "share of the default limit that is missing", "a tenth costs few percent")


def _cap(cap: float) -> Case:
    return case(GPU | {"power_cap": {"cap": cap, "default": 303.0}})


def _doubt(case: Case) -> str:
    unknown = [g["power_cap"]["unknown"] for g in devices(case) if known(g["power_cap"]) is None]
    return unknown[0] if unknown else ""


@check(
    "MACH045",
    Severity.WARNING,
    when=(AMD,),
    needs=("machine.gpus",),
    good=(_cap(303.0), _cap(290.0), _cap(330.0)),
    bad=(_cap(120.0),),
    doubt=_doubt,
)
def power(case: Case) -> Iterator[Finding]:
    """No card is held below the power that it has by default.

    Why: a limit that a desktop tool set stays until it is taken back, and takes clock and speed.
    Fix: `sudo amd-smi set --power-cap <watts>`, or the tool that set it; a limit that is meant can
    be silenced.
    Source: Linux, Documentation/gpu/amdgpu (power1_cap, power1_cap_default).
    """
    for gpu in devices(case):
        limit = known(gpu["power_cap"])
        if limit and _LOWER.exceeded_by(1 - limit["cap"] / limit["default"]):
            yield Finding(
                f"{title(gpu)} is held to {limit['cap']:.0f} of {limit['default']:.0f} W",
                (Evidence("power limit", dict(limit), "W", "hwmon power1_cap"),),
                why="training and inference: lower clocks under load",
                fix=f"sudo amd-smi set --power-cap {limit['default']:.0f}",
            )
