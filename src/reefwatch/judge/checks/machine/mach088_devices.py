"""MACH088: torch's devices are those of the machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_smoke import DEEP
from reefwatch.judge.machine_words import GPU


def _case(*seen: dict[str, Any], kind: str = "amd", shown: Sequence[int] = (0,)) -> Case:
    gpus = [GPU] if kind == "amd" else []
    return Case.of(machine__deep=True, machine__kind=kind, machine__gpus=gpus,
                   machine__shown=list(shown), smoke__devices=list(seen))  # fmt: skip


def _row(arch: str) -> dict[str, Any]:
    return {"name": "AMD Radeon RX 7900 XTX", "arch": arch}


@check(
    "MACH088",
    Severity.ERROR,
    when=(DEEP,),
    needs=("smoke.devices", "machine.kind", "machine.gpus"),
    good=(_case(_row("gfx1100")), _case(kind="cpu"), _case(_row("gfx1100:sramecc+:xnack-"))),
    bad=(_case(), _case(_row("gfx1030"))),
)
def devices(case: Case) -> Iterator[Finding]:
    """Torch counts the GPUs that the kernel shows, under their own targets.

    Why: a device that torch calls by another target than the kernel is under an override; one that
    torch does not count was hidden, or the runtime could not open it.
    Fix: see MACH001, MACH002 and MACH010.
    Source: sysfs gfx_target_version, which an override does not change; torch gcnArchName.
    """
    seen: Sequence[dict[str, Any]] = case.value("smoke.devices")
    kind = case.value("machine.kind")
    if kind == "nvidia" and not seen:
        yield Finding(
            "torch counts no GPU on a machine with an NVIDIA GPU",
            (Evidence("devices", 0, source="torch.cuda.device_count() in a child process"),),
            why="every use",
            fix="nvidia-smi must work first; then a CUDA build of torch of a CUDA that it lists",
        )
    if kind != "amd":
        return
    gpus = {gpu["index"]: gpu for gpu in case.value("machine.gpus")}
    indices = case.known("machine.shown", [])
    source = "torch in a child process"
    if len(seen) != len(indices):
        yield Finding(
            f"torch counts {len(seen)} GPUs, and the kernel shows {len(indices)} to this process",
            (Evidence("devices", len(seen), source=source),),
            why="every use",
            fix="reefwatch explain MACH010; reefwatch explain MACH002",
        )
        return
    for told, index in zip(seen, indices, strict=True):
        gfx, arch = gpus.get(index, {}).get("gfx"), str(told["arch"]).split(":")[0]
        if isinstance(gfx, str) and arch and arch != gfx:
            yield Finding(
                f"torch calls device {index} {arch}, and the kernel says {gfx}",
                (Evidence("arch", arch, source=source),),
                why="every use: code of another target runs, by an override",
                fix="unset HSA_OVERRIDE_GFX_VERSION",
            )
