"""MACH031: the GPU in the processor beside the card."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, IGPU, case, known, shown, title


@check(
    "MACH031",
    Severity.WARNING,
    when=(AMD,),
    needs=("machine.gpus", "machine.shown"),
    good=(case(GPU), case(IGPU), case(GPU, IGPU, shown=[0])),
    bad=(case(GPU, IGPU), case(IGPU | {"index": 0}, GPU | {"index": 1})),
)
def integrated(case: Case) -> Iterator[Finding]:
    """The GPU in the processor is hidden from programs where there is a card besides.

    Why: torch counts both. Programs that take every device, or device 0, meet the small one, for
    which the wheel has no kernels: a crash at the first launch ("invalid device function", a
    segmentation fault), or work at a hundredth of the speed.
    Fix: `export ROCR_VISIBLE_DEVICES=<index of the card>` (below), or switch the integrated GPU
    off in the firmware.
    Source: failures of gfx1036 beside discrete cards (public reports); HIP environment variables.
    """
    seen = shown(case)
    small = [gpu for gpu in seen if gpu["integrated"] is True]
    large = [gpu for gpu in seen if gpu["integrated"] is not True]
    if not small or not large:
        return
    indices = ",".join(str(gpu["index"]) for gpu in large)
    for gpu in small:
        yield Finding(
            f"{title(gpu)} ({known(gpu['gfx'])}) is device {gpu['index']} beside {title(large[0])}",
            (Evidence("integrated", True, source="sysfs"),),
            why="every use that takes all devices, or the first one",
            fix=f"export ROCR_VISIBLE_DEVICES={indices}",
        )
