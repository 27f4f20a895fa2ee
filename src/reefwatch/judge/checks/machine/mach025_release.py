"""MACH025: driver and ROCm of releases that go together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import GPU, case, of_row

_ROW = {"grade": "measured", "source": "compatibility matrix", "pairs": ["6.1", "6.2", "6.3"]}


def _case(version: str, rocm: str, pairs: Any) -> Case:
    driver = {"kind": "dkms", "version": version, "loaded": True}
    return case(GPU, driver=driver, torch_rocm=True, torch={"rocm": rocm}, driver_pairs=pairs)


_UNTOLD = "torch does not tell of which ROCm it is"


@check(
    "MACH025",
    Severity.WARNING,
    when=("machine.torch_rocm", "machine.driver_pairs"),
    needs=("machine.driver", "machine.torch", "machine.driver_pairs"),
    good=(_case("6.3.6", "6.2", _ROW),),
    doubt=lambda case: "" if case.value("machine.torch").get("rocm") else _UNTOLD,
    bad=(_case("6.3.6", "7.2", _ROW),),
)
def release(case: Case) -> Iterator[Finding]:
    """Driver and ROCm are of releases that AMD lists together.

    Only for AMD's own driver of a release that the table has: a kernel's amdgpu has no number.

    Why: outside the listed pairs the runtime may ask the driver for what it does not have, and
    fails at the first kernel although `is_available()` says yes.
    Fix: the driver release that AMD's compatibility matrix lists for this ROCm, or a torch of
    another index.
    Source: ROCm compatibility matrix, user and kernel space.
    """
    pairs = case.value("machine.driver_pairs")
    rocm = str(case.value("machine.torch").get("rocm") or "")
    if rocm and not any(rocm == pair or rocm.startswith(pair + ".") for pair in pairs["pairs"]):
        yield Finding(
            f"driver {case.value('machine.driver')['version']} with ROCm {rocm}; it is listed with "
            f"{', '.join(pairs['pairs'])}",
            (of_row("driver and ROCm", rocm, pairs),),
            why="every use: calls into the driver that it does not know",
            fix="the driver of this ROCm's release; `reefwatch plan` names it",
        )
