"""MACH020: the driver of each card."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case, devices, known, title

_LOADED = {"loaded": True, "kind": "in-tree"}
_NONE = {"unknown": "no driver is bound"}
_BARE = GPU | {"views": ["pci"], "node": None, "index": None}


@check(
    "MACH020",
    Severity.ERROR,
    when=(AMD,),
    needs=("machine.gpus",),
    good=(case(GPU, driver=_LOADED), case(GPU)),
    bad=(
        case(GPU | {"driver": "vfio-pci"}, driver=_LOADED),
        case(_BARE | {"driver": _NONE}, driver={"loaded": False, "kind": ""}),
        case(GPU | {"driver": "radeon"}),
    ),
)
def driver(case: Case) -> Iterator[Finding]:
    """Each AMD GPU is driven by amdgpu.

    Why: ROCm works through amdgpu alone. A card that vfio-pci holds belongs to a virtual machine,
    one that radeon holds is too old or was told to, one without a driver is not there for anybody.
    Fix: `sudo modprobe amdgpu`; look for `blacklist amdgpu` in /etc/modprobe.d and for `nomodeset`
    in /proc/cmdline.
    Source: Linux, Documentation/gpu/amdgpu; AMD install guide.
    """
    module: Mapping[str, Any] = case.known("machine.driver", {})
    for gpu in devices(case):
        bound = known(gpu["driver"])
        if bound == "amdgpu" or (bound is None and gpu["node"] is not None):
            continue  # a node of KFD's is amdgpu's
        what, fix = f"{title(gpu)} has no driver", "sudo modprobe amdgpu"
        if bound == "vfio-pci":
            what = f"{title(gpu)} is held by vfio-pci, for a virtual machine"
            fix = "take its id out of vfio-pci.ids and restart, if it is to compute here"
        elif bound:
            what, fix = (
                f"{title(gpu)} is driven by {bound}",
                "boot with radeon.cik_support=0 amdgpu.cik_support=1",
            )
        elif module.get("loaded") is False:
            what += ", and amdgpu is not loaded"
        yield Finding(
            what,
            (Evidence("driver", bound, source=f"sysfs {gpu['slot']}"),),
            claimed="amdgpu",
            why="every use: ROCm does not see the card",
            fix=fix,
        )
