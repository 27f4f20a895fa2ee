"""The cards of a machine: KFD's view, DRM's view, and which of them torch uses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reefwatch.core.fact import Unknown
from reefwatch.gather.host import Host
from reefwatch.gather.perf.throttle import amd_table_revision

_NODES = "/sys/class/kfd/kfd/topology/nodes"
_SLOT = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-9a-f])", re.IGNORECASE)


@dataclass(frozen=True)
class Node:
    """One GPU node of the KFD topology. `slot` is that of the card's first function."""

    number: int
    arch: str
    slot: str
    unique_id: int
    max_clock: int
    """MHz; 0 when the kernel does not say."""
    vram: int


@dataclass(frozen=True)
class Card:
    """One display or compute function with a driver."""

    slot: str
    folder: str
    vendor: str
    device: str
    integrated: bool | None
    vram: int | None


@dataclass(frozen=True)
class TorchDevice:
    """The device that torch computes on, as torch names it."""

    index: int
    name: str
    hip: bool
    slot: str | None
    uuid: str | None
    integrated: bool | None


def integer(text: str | Unknown) -> int | Unknown:
    """A decimal or 0x number."""
    if isinstance(text, Unknown):
        return text
    try:
        return int(text, 0) if text[:2].lower() == "0x" else int(text)
    except ValueError:
        return Unknown(f"{text[:40]!r} is not a number")


def mapping(text: str | Unknown, separator: str | None = None) -> dict[str, str]:
    """The lines `key value` or `KEY=value` of a file; a line of another shape is left out."""
    if isinstance(text, Unknown):
        return {}
    pairs = (line.split(separator, 1) for line in text.splitlines())
    return {pair[0].strip(): pair[1].strip() for pair in pairs if len(pair) == 2}


def slot_of(location: int, domain: int) -> str:
    """`0000:03:00.0` of KFD's location_id. Partitions of a card differ in the function only."""
    return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.0"


def same_slot(one: str | None, other: str | None) -> bool:
    """True when both name the same card, whatever the width of the domain or the function."""
    left, right = _SLOT.fullmatch(one or ""), _SLOT.fullmatch(other or "")
    if left is None or right is None:
        return False
    return [int(part, 16) for part in left.groups()[:3]] == [
        int(part, 16) for part in right.groups()[:3]
    ]


def arch_of(target: int) -> str:
    """`gfx90a` of 90010. Source: KFD, gfx_target_version = major*10000 + minor*100 + stepping."""
    if target <= 0:
        return ""
    return f"gfx{target // 10000}{target // 100 % 100:x}{target % 100:x}"


def kfd_nodes(host: Host) -> tuple[Node, ...]:
    """The GPU nodes in the order of their numbers, which is the order that HIP counts in."""
    nodes = []
    for folder in host.find(f"{_NODES}/*"):
        fields = mapping(host.read(f"{folder}/properties"))

        def field(name: str, fields: Mapping[str, str] = fields) -> int:
            value = integer(fields.get(name, "0"))
            return 0 if isinstance(value, Unknown) else value

        if not field("simd_count"):
            continue
        banks = [mapping(host.read(path)) for path in host.find(f"{folder}/mem_banks/*/properties")]
        local = [bank for bank in banks if bank.get("heap_type") in ("1", "2")]
        sizes = [integer(bank.get("size_in_bytes", "")) for bank in local]
        vram = sum(size for size in sizes if not isinstance(size, Unknown))
        number = integer(folder.rpartition("/")[2])
        nodes.append(
            Node(
                number=-1 if isinstance(number, Unknown) else number,
                arch=arch_of(field("gfx_target_version")),
                slot=slot_of(field("location_id"), field("domain")),
                unique_id=field("unique_id"),
                max_clock=field("max_engine_clk_fcompute"),
                vram=vram or field("local_mem_size"),
            )
        )
    return tuple(nodes)


def drm_cards(host: Host) -> tuple[Card, ...]:
    """The cards that have a DRM driver. Connectors (`card0-DP-1`) are not cards."""
    nodes = kfd_nodes(host)
    cards = []
    for path in host.find("/sys/class/drm/card*"):
        if not path.rpartition("card")[2].isdecimal():
            continue
        folder = f"{path}/device"
        facts = mapping(host.read(f"{folder}/uevent"), "=")
        if "PCI_SLOT_NAME" not in facts:
            continue
        vendor, _, device = facts.get("PCI_ID", ":").lower().partition(":")
        slot = facts["PCI_SLOT_NAME"].lower()
        node = next((node for node in nodes if same_slot(node.slot, slot)), None)
        vram = integer(host.read(f"{folder}/mem_info_vram_total"))
        cards.append(
            Card(
                slot=slot,
                folder=folder,
                vendor=vendor,
                device=device,
                integrated=_integrated(host, folder, node) if vendor == "1002" else None,
                vram=(node.vram or None if node else None) if isinstance(vram, Unknown) else vram,
            )
        )
    return tuple(cards)


def hwmon_labels(host: Host, folder: str) -> dict[str, str]:
    """By label (`junction`, `sclk`), the path of the sensor without its suffix.

    Labels decide: the numbers differ between cards.
    """
    for hwmon in host.find(f"{folder}/hwmon/hwmon*"):
        if host.read(f"{hwmon}/name") != "amdgpu":
            continue
        labels = {}
        for path in host.find(f"{hwmon}/*_label"):
            label = host.read(path)
            if not isinstance(label, Unknown):
                labels[label] = path.removesuffix("_label")
        return labels
    return {}


def _integrated(host: Host, folder: str, node: Node | None) -> bool | None:
    """Whether an AMD GPU is part of a processor; None when nothing tells.

    Signs, strongest first: a `vddnb` sensor, which the driver gives to APUs only (Linux,
    amdgpu_pm.c); the format of gpu_metrics (1 discrete, 2 and 3 APU); a memory bank as large as
    the system memory that the GPU may map; a junction or memory sensor, which APUs lack.
    """
    labels = hwmon_labels(host, folder)
    if "vddnb" in labels:
        return True
    raw = host.read_bytes(f"{folder}/gpu_metrics")
    revision = raw if isinstance(raw, Unknown) else amd_table_revision(raw)
    if not isinstance(revision, Unknown):
        return revision[0] != 1
    gtt = integer(host.read(f"{folder}/mem_info_gtt_total"))
    if node is not None and not isinstance(gtt, Unknown) and node.vram == gtt:
        return True
    if "junction" in labels or "mem" in labels:
        return False
    return False if node is not None and node.unique_id else None


def visible(count: Sequence[str], environ: Mapping[str, str], hip: bool) -> tuple[int, ...]:
    """Which of the cards, given by their uuids (`GPU-...`), torch counts, in its order.

    As the runtimes read the variables: a first unknown entry ends the list. On AMD
    ROCR_VISIBLE_DEVICES comes first, and HIP_VISIBLE_DEVICES, or else CUDA_VISIBLE_DEVICES, counts
    among what it leaves.
    """
    names = ["CUDA_VISIBLE_DEVICES"]
    if hip:
        if "HIP_VISIBLE_DEVICES" in environ:
            names = ["HIP_VISIBLE_DEVICES"]
        names.insert(0, "ROCR_VISIBLE_DEVICES")
    left = tuple(range(len(count)))
    for name in names:
        if name not in environ:
            continue
        chosen = []
        for token in environ[name].split(","):
            token = token.strip()
            if token.isdecimal() and int(token) < len(left):
                chosen.append(left[int(token)])
                continue
            matches = [n for n in left if token and count[n].lower().startswith(token.lower())]
            if len(matches) != 1:
                break
            chosen.append(matches[0])
        left = tuple(chosen)
    return left


@dataclass(frozen=True)
class Unused(Unknown):
    """No device, since torch computes on none: that is known."""


def torch_device(torch: Any) -> TorchDevice | Unknown:
    """The GPU that torch computes on; Unknown when it has none in use.

    Only asks what costs nothing: a CUDA or HIP that the script has not begun to use is left alone.
    """
    try:
        if not torch.cuda.is_initialized():
            return Unused("torch did not begin to use a GPU")
        held = {
            index: torch.cuda.memory_stats_as_nested_dict(index)
            .get("allocated_bytes", {})
            .get("all", {})
            .get("peak", 0)
            for index in range(torch.cuda.device_count())
        }
        index = max(held, key=lambda n: (held[n], n == torch.cuda.current_device()), default=-1)
        if index < 0 or not held[index]:
            return Unused("torch put no tensor on a GPU")
        props = torch.cuda.get_device_properties(index)
        bus, device = getattr(props, "pci_bus_id", None), getattr(props, "pci_device_id", None)
        domain = getattr(props, "pci_domain_id", 0)
        uuid = getattr(props, "uuid", None)
        integrated = getattr(props, "is_integrated", None)
        return TorchDevice(
            index=index,
            name=str(props.name),
            hip=bool(torch.version.hip),
            slot=None
            if bus is None or device is None
            else f"{domain:04x}:{bus:02x}:{device:02x}.0",
            uuid=None if uuid is None else str(uuid),
            integrated=None if integrated is None else bool(integrated),
        )
    except Exception as error:  # torch may be half torn down, or mocked
        return Unknown(f"torch could not be asked for its device: {type(error).__name__}: {error}")


def find_card(host: Host, device: TorchDevice, environ: Mapping[str, str]) -> Card | Unknown:
    """The AMD card behind a torch device: by its PCI slot, else by the order of the KFD nodes."""
    cards = [card for card in drm_cards(host) if card.vendor == "1002"]
    if not cards:
        return Unknown("no AMD card is to be seen in /sys/class/drm")
    slot = device.slot
    if slot is None:
        nodes = kfd_nodes(host)
        order = visible([f"GPU-{node.unique_id:016x}" for node in nodes], environ, hip=True)
        if device.index >= len(order):
            return Unknown(f"torch names no PCI slot, and KFD shows {len(order)} visible GPUs")
        slot = nodes[order[device.index]].slot
    for card in cards:
        if same_slot(card.slot, slot):
            return card
    return Unknown(f"the card at {slot} is not in /sys/class/drm")
