"""What checks of the machine share: reading devices and rows, and naming a card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reefwatch.core.fact import Evidence, Grade
from reefwatch.core.record import Case

AMD = "machine.amd"
PASSED = ("vfio-pci", "pci-stub", "pciback", "xen-pciback")
"""Drivers that hold a card for a virtual machine."""
GPU: dict[str, Any] = {
    "index": 0, "node": 1, "slot": "0000:03:00.0", "name": "AMD Radeon RX 7900 XTX",
    "gfx": "gfx1100", "gfx_from": "KFD", "integrated": False, "driver": "amdgpu", "card": "card0",
    "views": ["kfd", "drm"], "vram": 25753026560, "atomics": True, "screens": [], "bridges": 0,
    "link": {"width": 16.0, "max_width": 16.0, "speed": 16.0, "max_speed": 16.0},
    "partition": None, "firmware": {}, "vram_used": 0, "compute_units": 96,
    "power_cap": {"cap": 303.0, "default": 303.0}, "visible_vram": 25753026560,
}  # fmt: skip
"""A device as cases have it; shape: docs/record.md."""
IGPU: dict[str, Any] = GPU | {
    "index": 1, "node": 2, "slot": "0000:0e:00.0", "integrated": True, "gfx": "gfx1036",
    "name": "AMD Radeon Graphics (Raphael / Granite Ridge iGPU)", "card": "card1",
}  # fmt: skip


def case(*gpus: Mapping[str, Any], **facts: Any) -> Case:
    """A case with these devices, all shown; facts by their names without `machine.`."""
    named = {f"machine__{name}": value for name, value in facts.items()}
    indices = [gpu["index"] for gpu in gpus if gpu["index"] is not None]
    base = {"machine__amd": bool(gpus), "machine__gpus": list(gpus), "machine__shown": indices}
    return Case.of(**{**base, **named})


def known(value: Any) -> Any:
    """The value of a device's field; None where it is not known."""
    return None if isinstance(value, Mapping) and "unknown" in value else value


def devices(case: Case) -> Sequence[Mapping[str, Any]]:
    """The devices of the machine that are to compute here.

    A card that is held for a virtual machine, beside one that computes, is meant to be.
    """
    found: Sequence[Mapping[str, Any]] = case.value("machine.gpus")
    ours = [gpu for gpu in found if gpu["driver"] not in PASSED]
    return ours if any(gpu["node"] is not None for gpu in ours) else found


def shown(case: Case) -> list[Mapping[str, Any]]:
    """The devices that the runtime shows to a program; all when that is not known."""
    indices = case.known("machine.shown")
    return [
        gpu
        for gpu in case.known("machine.gpus", ())
        if indices is None or gpu.get("index") in indices
    ]


def title(gpu: Mapping[str, Any]) -> str:
    """`AMD Radeon RX 7900 XTX at 0000:03:00.0`, or what is known of it."""
    name = gpu.get("name")
    if isinstance(name, Mapping):
        names = name.get("candidates", ())
        name = name.get("likely") or " or ".join(n.removeprefix("AMD Radeon ") for n in names)
    slot = known(gpu.get("slot"))
    return f"{name or known(gpu.get('gfx')) or 'AMD GPU'}" + (f" at {slot}" if slot else "")


def of_row(name: str, value: Any, row: Mapping[str, Any]) -> Evidence:
    """Evidence of a table's row, with the grade that the row has."""
    return Evidence(name, value, source=str(row.get("source", "")), grade=Grade(row["grade"]))


def version(text: str) -> tuple[int, ...]:
    """`(6, 18, 0)` of `6.18.0-rc6`: the numbers up to the first that is none."""
    numbers = []
    for part in text.replace("-", ".").split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits[:9]))
    return tuple(numbers)
