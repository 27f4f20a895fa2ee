"""MACH110: containers for NVIDIA."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_port import SCANNED, case, covers, doubt, findings


@check(
    "MACH110",
    Severity.WARNING,
    when=(SCANNED,),
    needs=(SCANNED,),
    good=(case("other", "x"),),
    bad=(case("container", "FROM nvidia/cuda"),),
    covers=covers,
    doubt=doubt,
)
def container(case: Case) -> Iterator[Finding]:
    """Containers do not rest on NVIDIA's images and runtime.

    Why: NVIDIA's images have no ROCm, and --gpus passes no AMD device.
    Fix: rocm/pytorch images, with --device /dev/kfd --device /dev/dri --group-add video
    --group-add render --ipc host; amd.com/gpu in Kubernetes.
    Source: torch.toml, install.docker; AMD container guide.
    """
    yield from findings(
        case,
        "container",
        "NVIDIA's images have no ROCm, and --gpus passes no AMD device",
        "rocm/pytorch images, with --device /dev/kfd --device /dev/dri --group-add video "
        "--group-add render --ipc host; amd.com/gpu in Kubernetes",
    )
