"""DRM's and PCI's view: the cards that have a driver, and those that have none.

Source: Linux, Documentation/gpu/amdgpu and Documentation/ABI/testing/sysfs-bus-pci. `cardN` has
nothing to do with the order in which HIP counts, and may start at 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from reefwatch.core.fact import Unknown
from reefwatch.gather.host import Host
from reefwatch.gather.machine.replay import complete
from reefwatch.gather.machine.values import hexadecimal, known, pairs, whole

DRM, PCI = "/sys/class/drm", "/sys/bus/pci/devices"
PASSED = ("vfio-pci", "pci-stub", "pciback", "xen-pciback")
"""Drivers that hold a card for a virtual machine."""
NO_DRIVER = "no driver is bound"
VENDORS = {"1002": "AMD", "10de": "NVIDIA", "8086": "Intel"}
_SLOT = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE)
_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,2})?) *GT/s")
_FIRMWARE = ("mec", "mes", "mes_kiq", "sdma", "smc", "vcn", "rlc", "imu")


@dataclass(frozen=True)
class Device:
    """One display or compute function."""

    slot: str
    """`0000:03:00`, without the function; the card's name where nothing tells the slot."""
    function: int
    vendor: str
    device: str
    revision: str | Unknown
    folder: str
    driver: str | Unknown
    card: str = ""
    """`card0`; empty when DRM does not know it."""


def parts(slot: str) -> tuple[str, int] | None:
    """(`0000:03:00`, function) of a slot name."""
    found = _SLOT.fullmatch(slot.strip())
    if found is None:
        return None
    domain = f"{int(found[1], 16):04x}"
    return f"{domain}:{found[2]}:{found[3]}".lower(), int(found[4])


def cards(host: Host) -> tuple[Device, ...]:
    """The cards that DRM knows, of any vendor. Connectors (`card0-DP-1`) are not cards."""
    found = []
    for name in host.names(DRM):
        if not re.fullmatch(r"card[0-9]{1,6}", name, re.ASCII):
            continue
        folder = f"{DRM}/{name}/device"
        facts = pairs(host.read(f"{folder}/uevent"), "=")
        if "PCI_SLOT_NAME" not in facts:
            target = host.target(folder)
            facts["PCI_SLOT_NAME"] = known(target, "").rpartition("/")[2]
        device = _device(host, folder, facts, name)
        if device is not None:
            found.append(device)
    return tuple(found)


def views(host: Host) -> tuple[tuple[Device, ...], tuple[Device, ...]]:
    """(the cards that DRM knows, the functions that only the PCI bus shows).

    A card whose slot DRM does not tell (a copied tree may have lost the link) is one of the bus's
    functions with the same ids, and not listed a second time.
    """
    known_cards = list(cards(host))
    left = list(_unclaimed(host, frozenset(card.slot for card in known_cards)))
    for number, card in enumerate(known_cards):
        if parts(f"{card.slot}.0") is not None:
            continue
        alike = [one for one in left if (one.vendor, one.device) == (card.vendor, card.device)]
        if not alike:
            continue
        left.remove(alike[0])
        rivals = [one for one in known_cards if parts(f"{one.slot}.0") is None]
        if len(alike) == 1 and len([r for r in rivals if r.device == card.device]) == 1:
            same = alike[0]
            driver = same.driver if isinstance(card.driver, Unknown) else card.driver
            known_cards[number] = replace(
                card, slot=same.slot, function=same.function, driver=driver
            )
    return tuple(known_cards), tuple(left)


def _unclaimed(host: Host, seen: frozenset[str]) -> Iterator[Device]:
    """Display and compute functions that the PCI bus shows and that are not in `seen` (slots).

    Virtual functions are left out on the host of their card: they are for its guests.
    """
    for name in host.names(PCI):
        where = parts(name)
        kind = host.read(f"{PCI}/{name}/class") if where else Unknown("no slot")
        if where is None or where[0] in seen:
            continue
        if not isinstance(kind, Unknown) and not _displays(kind):
            continue  # the other functions of a machine are many, and nothing else of them is read
        facts = pairs(host.read(f"{PCI}/{name}/uevent"), "=") | {"PCI_SLOT_NAME": name}
        if not _displays(facts.get("PCI_CLASS", "") if isinstance(kind, Unknown) else kind):
            continue
        device = _device(host, f"{PCI}/{name}", facts, "")
        if device is not None and not host.exists(f"{PCI}/{name}/physfn"):
            yield device


def _displays(kind: str) -> bool:
    """Whether a PCI class is that of a display or of a processing accelerator."""
    return known(hexadecimal(kind, "class"), 0) >> 16 in (0x03, 0x12)


def _device(host: Host, folder: str, facts: dict[str, str], card: str) -> Device | None:
    where = parts(facts.get("PCI_SLOT_NAME", "")) or (card, 0)
    vendor, _, device = facts.get("PCI_ID", "").lower().partition(":")
    if not re.fullmatch(r"[0-9a-f]{1,4}", vendor):
        vendor = _id(host, folder, "vendor")
    if not re.fullmatch(r"[0-9a-f]{1,4}", device):
        device = _id(host, folder, "device")
    if not vendor:
        return None
    return Device(
        where[0], where[1], vendor.zfill(4), device.zfill(4) if device else "",
        revision(host, folder), folder, _driver(host, folder, facts, card), card,
    )  # fmt: skip


def _driver(host: Host, folder: str, facts: dict[str, str], card: str) -> str | Unknown:
    """The driver by uevent or by its link. Only where both could be seen is there none.

    A card that DRM knows has one in any case: DRM's devices are made by drivers.
    """
    named = facts.get("DRIVER", "")
    if named:
        return named[:60]
    target = host.target(f"{folder}/driver")
    if not isinstance(target, Unknown):
        return target.rpartition("/")[2]
    if not card and ("PCI_ID" in facts or complete(host)):
        return Unknown(NO_DRIVER)
    return Unknown("nothing tells the driver of the card")


def _id(host: Host, folder: str, name: str) -> str:
    number = hexadecimal(host.read(f"{folder}/{name}"), name, 0xFFFF)
    return "" if isinstance(number, Unknown) else f"{number:04x}"


def revision(host: Host, folder: str) -> str | Unknown:
    """`c8`, from the file of that name, else from byte 8 of the configuration space."""
    number = hexadecimal(host.read(f"{folder}/revision"), f"{folder}/revision", 0xFF)
    if not isinstance(number, Unknown):
        return f"{number:02x}"
    raw = host.read_bytes(f"{folder}/config")
    if isinstance(raw, Unknown) or len(raw) < 64:
        return number
    return f"{raw[8]:02x}"


def render_slot(host: Host, minor: int | Unknown) -> str | None:
    """The slot behind `/dev/dri/renderD<minor>`, by which KFD's nodes name their card."""
    if isinstance(minor, Unknown):
        return None
    facts = pairs(host.read(f"{DRM}/renderD{minor}/device/uevent"), "=")
    where = parts(facts.get("PCI_SLOT_NAME", ""))
    return where[0] if where else None


def graphics_core(host: Host, folder: str) -> str | Unknown:
    """The version of the graphics core, `12.0.1`, from ip_discovery (hardware id 11)."""
    for die in host.find(f"{folder}/ip_discovery/die/0/11/*")[:4]:
        numbers = [
            whole(host.read(f"{die}/{name}"), name, 0, 99)
            for name in ("major", "minor", "revision")
        ]
        if not any(isinstance(number, Unknown) for number in numbers):
            return ".".join(str(number) for number in numbers)
    return Unknown("the card has no ip_discovery (an older kernel)")


def memory(host: Host, folder: str) -> dict[str, int | Unknown]:
    """Bytes of VRAM, of the part that the processor sees, and of GTT."""
    files = {"vram": "vram", "visible": "vis_vram", "gtt": "gtt"}
    return {
        name: whole(host.read(f"{folder}/mem_info_{heap}_total"), f"mem_info_{heap}_total")
        for name, heap in files.items()
    } | {"used": whole(host.read(f"{folder}/mem_info_vram_used"), "mem_info_vram_used")}


def link(host: Host, device: Device) -> dict[str, float] | Unknown:
    """The narrowest hop that belongs to the card: width (lanes), speed (GT/s), and the most.

    A discrete AMD card has a switch of its own. The GPU's own link is inside the card and always
    wide; the slot is the link of the switch's upstream port, two devices above.
    """
    hops = [_hop(host, folder) for folder in path(host, device)]
    good = [hop for hop in hops if not isinstance(hop, Unknown)]
    if not good:
        return hops[0]
    return min(good, key=lambda hop: hop["width"] * hop.get("max_speed", hop.get("speed", 0.0)))


def path(host: Host, device: Device) -> list[str]:
    """The GPU's folder and those of the AMD bridges of the card right above it."""
    folders, target = [device.folder], _real(host, device)
    if isinstance(target, Unknown) or device.vendor != "1002":
        return folders
    above = target.rpartition("/")[0]
    while len(folders) < 4 and host.read(f"{above}/vendor") == "0x1002":
        folders.append(above)
        above = above.rpartition("/")[0]
    return folders


def bridges(host: Host, device: Device) -> int | Unknown:
    """Bridges between the card and the root port: 0 in a slot of the processor itself."""
    target = _real(host, device)
    if isinstance(target, Unknown):
        return Unknown("where the card hangs on the bus is not to be seen")
    above = [part for part in target.split("/") if parts(part)][:-1]
    own = len(path(host, device)) - 1
    return max(0, len(above) - own - 1)


def _real(host: Host, device: Device) -> str | Unknown:
    return host.target(f"{PCI}/{device.slot}.{device.function}")


def _hop(host: Host, folder: str) -> dict[str, float] | Unknown:
    hop: dict[str, float] = {}
    for name in ("width", "max_width"):
        file = name.replace("width", "link_width")
        file = file if file.startswith("max") else f"current_{file}"
        value = whole(host.read(f"{folder}/{file}"), file, 1, 64)
        if isinstance(value, Unknown):
            if name == "width":
                return value
            continue
        hop[name] = float(value)
    for name in ("speed", "max_speed"):
        file = "current_link_speed" if name == "speed" else "max_link_speed"
        text = host.read(f"{folder}/{file}")
        found = None if isinstance(text, Unknown) else _SPEED.match(text)
        if found:
            hop[name] = float(found[1])
    return hop


def connectors(host: Host, device: Device) -> list[str] | Unknown:
    """The outputs of a card to which a screen is connected."""
    if not device.card:
        return Unknown("DRM does not know the card")
    names = [name for name in host.names(DRM) if name.startswith(f"{device.card}-")]
    states = {name: host.read(f"{DRM}/{name}/status") for name in names}
    readable = {name: state for name, state in states.items() if not isinstance(state, Unknown)}
    if not readable:
        return Unknown(f"no connector of {device.card} can be read")
    return [name for name, state in readable.items() if state == "connected"]


def partitioning(host: Host, folder: str) -> str:
    """`CPX/NPS4`: how the card's compute dies and its memory are shared out; empty where one is."""
    names = ("current_compute_partition", "current_memory_partition")
    said = [host.read(f"{folder}/{name}") for name in names]
    return "/".join(word[:20] for word in said if not isinstance(word, Unknown))


def firmware(host: Host, folder: str) -> dict[str, int]:
    """Versions of the firmware that decide about hangs, by name; those not there are left out."""
    found = {}
    for name in _FIRMWARE:
        number = hexadecimal(host.read(f"{folder}/fw_version/{name}_fw_version"), name, 0xFFFFFFFF)
        if not isinstance(number, Unknown) and number:
            found[name] = number
    return found


def apu_sensor(host: Host, folder: str) -> bool:
    """True when the card has the `vddnb` sensor, which the driver gives to APUs only."""
    labels = host.find(f"{folder}/hwmon/hwmon*/in*_label")
    return any(host.read(label) == "vddnb" for label in labels[:32])
