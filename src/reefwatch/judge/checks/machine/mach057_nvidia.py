"""MACH057: NVIDIA's driver and the CUDA of torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import case, of_row, version

_ROW = {"cuda": "12", "driver": "525.60.13", "grade": "measured", "source": "CUDA compatibility"}


def _case(driver: str, cuda: str, rows: Any = (_ROW,)) -> Case:
    return case(has_nvidia=True, nvidia={"driver": driver, "cards": ["NVIDIA H200"]},
                torch={"cuda": cuda, "version": "2.13.0"}, cuda_drivers=list(rows))  # fmt: skip


@check(
    "MACH057",
    Severity.ERROR,
    when=("machine.has_nvidia", "machine.torch_cuda"),
    needs=("machine.nvidia", "machine.torch", "machine.cuda_drivers"),
    good=(
        Case.of(
            machine__has_nvidia=True,
            machine__torch_cuda=True,
            machine__nvidia={"driver": "570.1", "cards": []},
            machine__torch={"cuda": "12.8", "version": "2.13.0"},
            machine__cuda_drivers=[_ROW],
        ),
    ),
    bad=(
        Case.of(
            machine__has_nvidia=True,
            machine__torch_cuda=True,
            machine__nvidia={"driver": "470.82", "cards": []},
            machine__torch={"cuda": "12.8", "version": "2.13.0"},
            machine__cuda_drivers=[_ROW],
        ),
    ),
)
def nvidia(case: Case) -> Iterator[Finding]:
    """NVIDIA's driver is new enough for the CUDA of this torch.

    Why: an older driver refuses the runtime: torch says that the driver is too old, and there is no
    GPU.
    Fix: a driver from the release that the table names on, or a torch of an older CUDA.
    Source: NVIDIA, CUDA compatibility, minimum driver versions.
    """
    have = case.value("machine.nvidia")["driver"]
    torch = case.value("machine.torch")
    cuda = str(torch.get("cuda") or "")
    for row in case.value("machine.cuda_drivers"):
        if cuda.split(".")[0] == row["cuda"] and have and version(have) < version(row["driver"]):
            yield Finding(
                f"driver {have} with torch {torch['version']} for CUDA {cuda}",
                (of_row("driver", have, row),),
                claimed=f"driver {row['driver']} or newer",
                why="every use: torch finds no GPU",
                fix=f"update the driver to {row['driver']} or newer, or install a torch for an "
                "older CUDA",
            )
