"""The GPUs of a machine: KFD's, DRM's and PCI's view of each, joined by its slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reefwatch.core.fact import Unknown
from reefwatch.gather.host import Host
from reefwatch.gather.machine import drm, kfd
from reefwatch.gather.machine.products import Products
from reefwatch.gather.machine.values import known, told, whole
from reefwatch.gather.perf.cards import visible


def devices(
    nodes: tuple[kfd.Node, ...] | Unknown,
    cards: Sequence[drm.Device],
    unbound: Sequence[drm.Device],
    host: Host,
    products: Products,
) -> list[dict[str, Any]]:
    """One mapping per AMD GPU device: KFD's in HIP's order, then those that only DRM or PCI show.

    A partition is a device of its own. A value that is not known is `{"unknown": reason}`.
    """
    gpus = [] if isinstance(nodes, Unknown) else [node for node in nodes if node.is_gpu]
    cpus = frozenset() if isinstance(nodes, Unknown) else frozenset(
        node.number for node in nodes if node.is_cpu and not node.is_gpu
    )  # fmt: skip
    amd = {card.slot: card for card in cards if card.vendor == "1002"}
    rest = {device.slot: device for device in unbound if device.vendor == "1002"}
    made = []
    for index, node in enumerate(gpus):
        slot = node.slot()
        device = None if isinstance(slot, Unknown) else amd.get(slot) or rest.get(slot)
        if device is None:  # an old kernel tells no domain, a strange one no location
            minor = node.value("drm_render_minor", 1, 1 << 20)
            device = amd.get(drm.render_slot(host, minor) or "")
        made.append(_device(host, products, node, device, index, cpus))
    seen = {gpu["slot"][:-2] for gpu in made if isinstance(gpu["slot"], str)}
    seen |= {gpu["card"] for gpu in made if isinstance(gpu["card"], str)}
    both = [one for one in (*cards, *unbound) if one.vendor == "1002"]
    alone = [one for one in both if one.slot not in seen and one.card not in seen]
    made += [_device(host, products, None, device, None, cpus) for device in alone]
    _mark_partitions(made)
    _fill_views(made, nodes)
    return made


def _device(
    host: Host,
    products: Products,
    node: kfd.Node | None,
    device: drm.Device | None,
    index: int | None,
    cpus: frozenset[int],
) -> dict[str, Any]:
    ids = _ids(host, node, device)
    apart = _apart(node, device)
    gfx, gfx_from = _gfx(node, products, ids["device"])
    units = _units(node)
    gone = Unknown("KFD shows no node for it")
    field = node.value if node else lambda name, low=0, high=0: gone
    made = {
        "index": index,
        "node": node.number if node else None,
        **ids,
        "device": apart or ids["device"] or Unknown("neither KFD nor DRM tells a PCI id of it"),
        "name": told(apart) if apart else products.name(ids["device"], ids["revision"], units),
        "gfx": gfx,
        "gfx_from": gfx_from,
        "wavefront": field("wave_front_size", 1, 128) if node else _wave(products, gfx),
        "compute_units": units,
        "integrated": _integrated(host, node, device, products, ids["device"], gfx),
        "hive": _hive(node) if node else gone,
        "render_minor": field("drm_render_minor", 1, 1 << 20),
        "unique_id": _unique(host, node, device),
        "atomics": node.atomics(cpus) if node else gone,
        "mec_firmware": field("fw_version", 1, 1 << 32),
        "sdma_firmware": field("sdma_fw_version", 1, 1 << 32),
    }
    made |= _memory(host, node, device, made["integrated"] is True)
    made |= _of_card(host, device)
    if isinstance(gfx, Unknown) and isinstance(made["gc"], str):
        made["gfx"] = _likely(gfx, made["gc"])
    return {
        key: value if isinstance(value, dict) and "unknown" in value else told(value)
        for key, value in made.items()
    }


def _apart(node: kfd.Node | None, device: drm.Device | None) -> Unknown | None:
    """Why the card is not known, where KFD and DRM name two of them at one place."""
    number = node.value("device_id", 1, 0xFFFF) if node else Unknown("no node")
    if device is None or not device.device or isinstance(number, Unknown):
        return None
    if f"{number:04x}" == device.device:
        return None
    return Unknown(f"KFD says that it is device {number:04x}, and DRM {device.device}")


def _ids(host: Host, node: kfd.Node | None, device: drm.Device | None) -> dict[str, Any]:
    if device is not None:
        if drm.parts(f"{device.slot}.0") is None:
            return {
                "slot": Unknown(f"nothing tells the slot of {device.card}"),
                "vendor": device.vendor,
                "device": device.device,
                "revision": device.revision,
            }
        function = device.function
        if node is not None:
            function = known(node.value("location_id"), 0) & 7
        return {
            "slot": f"{device.slot}.{function}",
            "vendor": device.vendor,
            "device": device.device,
            "revision": device.revision,
        }
    assert node is not None
    slot = node.slot()
    vendor, number = node.value("vendor_id", 1, 0xFFFF), node.value("device_id", 1, 0xFFFF)
    where = (
        slot if isinstance(slot, Unknown) else f"{slot}.{known(node.value('location_id'), 0) & 7}"
    )
    return {
        "slot": where,
        "vendor": "" if isinstance(vendor, Unknown) else f"{vendor:04x}",
        "device": "" if isinstance(number, Unknown) else f"{number:04x}",
        "revision": Unknown("KFD tells no revision, and DRM's view of the card is not there"),
    }


def _gfx(node: kfd.Node | None, products: Products, device: str) -> tuple[str | Unknown, str]:
    """(target, where it is from). The kernel's word is true whatever an override says."""
    by_id = products.gfx(device)
    if node is None:
        return by_id, "" if isinstance(by_id, Unknown) else "device id"
    gfx = node.gfx()
    if not isinstance(gfx, Unknown):
        return gfx, "KFD"
    if isinstance(by_id, Unknown):
        return Unknown(f"{gfx.reason}; {by_id.reason}"), ""
    return by_id, "device id"


def _likely(why: Unknown, core: str) -> dict[str, Any]:
    """A card that no table has: its graphics core's version is the target's, but for gfx942."""
    major, minor, revision = (int(part) for part in core.split("."))
    name = "gfx942" if core == "9.4.3" else f"gfx{major}{minor:x}{revision:x}"
    return {
        "unknown": why.reason,
        "candidates": [name],
        "because": f"the graphics core is {core} (ip_discovery), which is not the target's name",
    }


def _wave(products: Products, gfx: str | Unknown) -> int | Unknown:
    return gfx if isinstance(gfx, Unknown) else products.wavefront(gfx)


def _units(node: kfd.Node | None) -> int | Unknown:
    """Active compute units: SIMDs over SIMDs per unit; the array counts name the physical ones."""
    if node is None:
        return Unknown("KFD shows no node for it")
    simds, per = node.value("simd_count", 1, 1 << 20), node.value("simd_per_cu", 1, 1 << 10)
    if isinstance(simds, Unknown) or isinstance(per, Unknown):
        return simds if isinstance(simds, Unknown) else per
    return simds // per


def _hive(node: kfd.Node) -> bool | Unknown:
    """Whether it is linked to others by XGMI."""
    hive = node.value("hive_id")
    return hive if isinstance(hive, Unknown) else hive != 0


def _unique(host: Host, node: kfd.Node | None, device: drm.Device | None) -> str | Unknown:
    """16 hex digits, the same for all partitions of a card; 0 on APUs."""
    number = node.value("unique_id") if node else Unknown("KFD shows no node for it")
    if not isinstance(number, Unknown):
        return f"{number:016x}" if number else Unknown("the card has no unique id")
    text = host.read(f"{device.folder}/unique_id") if device else number
    if isinstance(text, Unknown):
        return text
    plain = text.strip().lower()[:16]
    return plain if plain.isalnum() and plain.isascii() else Unknown("unique_id is no number")


def _integrated(
    host: Host,
    node: kfd.Node | None,
    device: drm.Device | None,
    products: Products,
    number: str,
    gfx: str | Unknown,
) -> bool | Unknown:
    """Whether it is part of a processor, and has no memory of its own.

    Signs, strongest first: a node that is CPU and GPU at once; a `vddnb` sensor; the table of
    cards; a unique id of 0, which APUs have.
    """
    if node is not None and node.is_cpu:
        return True
    if device is not None and drm.apu_sensor(host, device.folder):
        return True
    by_table = products.integrated(number, known(gfx, ""))
    if not isinstance(by_table, Unknown):
        return by_table
    unique = node.value("unique_id") if node else Unknown("no node")
    return by_table if isinstance(unique, Unknown) else unique == 0


def _memory(
    host: Host, node: kfd.Node | None, device: drm.Device | None, integrated: bool
) -> dict[str, int | Unknown]:
    """Bytes. An APU has a carve-out and what it may map of the system's memory: both are told.

    DRM knows the whole card, KFD the device (a partition), so KFD's word counts for the VRAM of a
    card of its own.
    """
    gone = Unknown("neither KFD nor DRM tells it")
    banks = node.memory() if node else Unknown("KFD shows no node for it")
    seen: Mapping[str, int | Unknown] = drm.memory(host, device.folder) if device else {}
    whole_card = seen.get("vram", gone)
    if integrated:
        vram = whole_card
    else:
        vram = whole_card if isinstance(banks, Unknown) else banks
        if isinstance(vram, Unknown):
            vram = banks if node else whole_card
    return {
        "vram": vram,
        "kfd_memory": banks,
        "visible_vram": seen.get("visible", gone),
        "gtt": seen.get("gtt", gone),
        "vram_used": _used(seen.get("used", gone), whole_card),
    }


def _used(used: int | Unknown, total: int | Unknown) -> int | Unknown:
    if isinstance(used, Unknown) or isinstance(total, Unknown) or used <= total:
        return used
    return Unknown(f"mem_info_vram_used holds {used}, which is more than there is ({total})")


def _of_card(host: Host, device: drm.Device | None) -> dict[str, Any]:
    if device is None:
        gone = Unknown("DRM's view of the card is not there")
        names = ("driver", "card", "link", "bridges", "screens", "power_cap", "gc")
        return dict.fromkeys(names, gone) | {"firmware": {}}
    return {
        "driver": device.driver,
        "card": device.card or Unknown("DRM does not know the card"),
        "link": drm.link(host, device),
        "bridges": drm.bridges(host, device),
        "screens": drm.connectors(host, device),
        "power_cap": _power(host, device.folder),
        "firmware": drm.firmware(host, device.folder),
        "gc": drm.graphics_core(host, device.folder),
        "partitioning": drm.partitioning(host, device.folder),
    }


def _power(host: Host, folder: str) -> dict[str, float] | Unknown:
    """The power limit and its default, in W."""
    for hwmon in host.find(f"{folder}/hwmon/hwmon*")[:8]:
        if host.read(f"{hwmon}/name") != "amdgpu":
            continue
        values = [
            whole(host.read(f"{hwmon}/power1_{name}"), name, 1, 10**10)
            for name in ("cap", "cap_default")
        ]
        if not any(isinstance(value, Unknown) for value in values):
            cap, default = (known(value, 0) / 1e6 for value in values)
            return {"cap": cap, "default": default}
    return Unknown("the card tells no power limit")


def _mark_partitions(gpus: list[dict[str, Any]]) -> None:
    """Devices of one card: the same slot but for the function, and the same unique id."""
    by_card: dict[str, list[dict[str, Any]]] = {}
    modes = [gpu.pop("partitioning", "") for gpu in gpus]
    for gpu in gpus:
        gpu["partition"] = None
        if gpu["node"] is not None and isinstance(gpu["slot"], str):
            by_card.setdefault(_card(gpu), []).append(gpu)
    for group in by_card.values():
        for number, gpu in enumerate(group):
            if len(group) > 1:
                gpu["partition"] = {"number": number, "seen": len(group)}
    for gpu, mode in zip(gpus, modes, strict=True):
        if gpu["partition"] and mode:
            gpu["partition"]["mode"] = mode


def _card(gpu: Mapping[str, Any]) -> str:
    """What all devices of a card share. An old kernel tells no domain, and there two cards can
    have one slot; their unique ids differ.
    """
    unique = gpu["unique_id"] if isinstance(gpu["unique_id"], str) else ""
    return f"{gpu['slot'][:-2]} {unique}"


def _fill_views(gpus: list[dict[str, Any]], nodes: object) -> None:
    for gpu in gpus:
        views = []
        if gpu["node"] is not None:
            views.append("kfd")
        if isinstance(gpu["card"], str):
            views.append("drm")
        elif isinstance(gpu["driver"], str) or gpu["node"] is None:
            views.append("pci")
        gpu["views"] = views
        if gpu["node"] is None and isinstance(nodes, Unknown):
            gpu["views_missing"] = {"kfd": nodes.reason}


def cards(gpus: Sequence[Mapping[str, Any]]) -> int:
    """How many cards the devices are of: partitions share a slot and a unique id."""
    keys = {
        _card(gpu) if isinstance(gpu["slot"], str) else f"?{number}"
        for number, gpu in enumerate(gpus)
    }
    return len(keys)


def shown(gpus: Sequence[Mapping[str, Any]], environ: Mapping[str, str]) -> list[int]:
    """Indices of the devices that HIP shows under these variables, in its order."""
    counted = [gpu for gpu in gpus if gpu["node"] is not None]
    names = [
        f"GPU-{gpu['unique_id']}" if isinstance(gpu["unique_id"], str) else f"GPU-?{gpu['index']}"
        for gpu in counted
    ]
    return list(visible(names, environ, hip=True))
