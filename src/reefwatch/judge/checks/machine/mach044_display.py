"""MACH044: screens on the card that computes."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case, devices, known, title


def _doubt(case: Case) -> str:
    unknown = [g["screens"]["unknown"] for g in devices(case) if known(g["screens"]) is None]
    return unknown[0] if unknown else ""


@check(
    "MACH044",
    Severity.WARNING,
    when=(AMD,),
    needs=("machine.gpus",),
    good=(case(GPU), case(GPU | {"integrated": True, "screens": ["card1-HDMI-A-1"]})),
    bad=(case(GPU | {"screens": ["card0-DP-1"]}),),
    doubt=_doubt,
)
def display(case: Case) -> Iterator[Finding]:
    """No screen is connected to a card that computes.

    Why: a kernel that runs for seconds starves the screen; the driver then resets the GPU and the
    training with it. The desktop also holds memory of the card.
    Fix: plug the screen into the board's own output (the integrated GPU), or work without one
    (`sudo systemctl isolate multi-user.target`); shorter kernels (smaller batch, tiling) help.
    Source: ROCm issues 2533 and 3166.
    """
    for gpu in devices(case):
        screens = known(gpu["screens"])
        if screens and gpu["integrated"] is not True:
            yield Finding(
                f"{title(gpu)} drives {', '.join(screens)}",
                (Evidence("connected", list(screens), source="/sys/class/drm/*/status"),),
                why="training and long kernels: the driver resets a GPU whose screen starves",
                fix="plug the screen into the integrated GPU, or work without a desktop",
            )
