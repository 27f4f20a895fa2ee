"""MACH020: the driver of each card."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, PASSED, case, devices, known, title

_LOADED = {"loaded": True, "kind": "in-tree"}
_NONE = {"unknown": "no driver is bound"}
_BARE = GPU | {"views": ["pci"], "node": None, "index": None}
_INSTEAD = {
    "radeon": "boot with radeon.cik_support=0 amdgpu.cik_support=1",
    "gim": "it shares the card out to virtual machines, which compute in its place; to compute "
    "here, unload gim and sudo modprobe amdgpu",
}
_REBIND = "take the card from that driver, and sudo modprobe amdgpu"


def _untold(gpu: Mapping[str, Any]) -> bool:
    """Whether the tree does not show the driver, which is not the same as that there is none."""
    bound = gpu["driver"]
    return gpu["node"] is None and isinstance(bound, Mapping) and bound != _NONE


def _doubt(case: Case) -> str:
    return next((str(gpu["driver"]["unknown"]) for gpu in devices(case) if _untold(gpu)), "")


@check(
    "MACH020",
    Severity.ERROR,
    when=(AMD,),
    needs=("machine.gpus",),
    good=(
        case(GPU, driver=_LOADED),
        case(GPU),
        case(GPU, _BARE | {"driver": "vfio-pci"}, driver=_LOADED),
    ),
    bad=(
        case(_BARE | {"driver": "vfio-pci"}, driver=_LOADED),
        case(_BARE | {"driver": "gim"}),
        case(_BARE | {"driver": "pci-stub"}),
        case(_BARE | {"driver": _NONE}, driver={"loaded": False, "kind": ""}),
        case(GPU | {"driver": "radeon"}),
    ),
    doubt=_doubt,
)
def driver(case: Case) -> Iterator[Finding]:
    """Each AMD GPU is driven by amdgpu.

    Why: ROCm works through amdgpu alone. A card that vfio-pci holds belongs to a virtual machine,
    one that radeon holds is too old or was told to, one without a driver is not there for anybody.
    Beside a card that computes, one that vfio-pci holds is meant to be: nothing is said of it.
    Fix: `sudo modprobe amdgpu`; look for `blacklist amdgpu` in /etc/modprobe.d and for `nomodeset`
    in /proc/cmdline.
    Source: Linux, Documentation/gpu/amdgpu; AMD install guide.
    """
    module: Mapping[str, Any] = case.known("machine.driver", {})
    for gpu in devices(case):
        bound = known(gpu["driver"])
        if bound == "amdgpu" or _untold(gpu) or (bound is None and gpu["node"] is not None):
            continue  # a node of KFD's is amdgpu's
        what, fix = f"{title(gpu)} has no driver", "sudo modprobe amdgpu"
        if bound in PASSED:
            what = f"{title(gpu)} is held by {bound}, for a virtual machine"
            fix = f"take its id out of {bound}.ids and restart, if it is to compute here"
        elif bound:
            what, fix = f"{title(gpu)} is driven by {bound}", _INSTEAD.get(bound, _REBIND)
        elif module.get("loaded") is False:
            what += ", and amdgpu is not loaded"
        yield Finding(
            what,
            (Evidence("driver", bound, source=f"sysfs {gpu['slot']}"),),
            claimed="amdgpu",
            why="every use: ROCm does not see the card",
            fix=fix,
        )
