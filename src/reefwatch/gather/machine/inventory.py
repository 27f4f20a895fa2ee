"""The inventory of a machine: every probe once, each fact with its source or the reason it lacks.

Names and shapes are in docs/record.md. Reads files, and runs `dmesg`; takes milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from reefwatch.core.fact import Evidence, Fact, Unknown
from reefwatch.data.tables import Tables
from reefwatch.gather.host import Host
from reefwatch.gather.machine import (
    access,
    arch,
    drm,
    gpus,
    kfd,
    known_bad,
    system,
    uses,
    variables,
    wheels,
)
from reefwatch.gather.machine.products import Products
from reefwatch.gather.machine.replay import complete, knows_environ
from reefwatch.gather.machine.values import fact, told

_KFD_DEV = "/sys/class/kfd/kfd/dev"


def take(host: Host, tables: Tables) -> dict[str, Fact]:
    """All facts about the machine, by name. Never raises for what a file holds."""
    process = access.read(host)
    facts = _cards(host, tables)
    facts |= _system(host, process)
    facts |= _nodes(process)
    facts |= _software(host, tables, process)
    facts |= _joined(tables, facts)
    facts["machine.tables"] = Evidence(
        "machine.tables",
        {"asof": tables.asof, "overlay": tables.overlay},
        source="shipped with reefwatch",
    )
    return facts


def _cards(host: Host, tables: Tables) -> dict[str, Fact]:
    nodes, (cards, unbound) = kfd.nodes(host), drm.views(host)
    found = gpus.devices(nodes, cards, unbound, host, Products(tables))
    dxg = host.exists("/dev/dxg")
    others = [_other(host, one) for one in (*cards, *unbound) if one.vendor != "1002"]
    nvidia = system.nvidia(host)
    is_nvidia = not isinstance(nvidia, Unknown) or any(o["vendor"] == "NVIDIA" for o in others)
    looked = complete(host) or not isinstance(nodes, Unknown) or bool(cards) or bool(unbound)
    looked = looked and not (dxg and not found)
    nothing = Unknown(
        "under WSL2 the GPU belongs to Windows, and sysfs does not show it"
        if dxg
        else "the captured tree shows no GPU, and not whether there is one"
    )
    hidden = [] if isinstance(nodes, Unknown) else [node for node in nodes if node.hidden]
    if hidden and not found:  # a machine with GPUs, of which none is known
        number, reason = hidden[0].number, hidden[0].hidden
        looked, nothing = False, Unknown(f"what KFD node {number} is cannot be seen: {reason}")
    source = "sysfs: KFD topology, DRM, PCI"
    facts: dict[str, Fact] = {
        "machine.gpus": fact("machine.gpus", found if looked else nothing, source),
        "machine.cards": fact("machine.cards", gpus.cards(found) if looked else nothing, source),
        "machine.shown": fact(
            "machine.shown",
            nodes if isinstance(nodes, Unknown) else gpus.shown(found, host.environ),
            "KFD topology and the variables that hide devices",
        ),
        "machine.hidden_nodes": fact(
            "machine.hidden_nodes",
            nodes
            if isinstance(nodes, Unknown)
            else [
                {"node": node.number, "reason": node.hidden, "masked": node.masked}
                for node in hidden
            ],
            kfd.TOPOLOGY,
        ),
        "machine.cpu_nodes": fact(
            "machine.cpu_nodes",
            nodes if isinstance(nodes, Unknown) else [node.number for node in nodes if node.is_cpu],
            kfd.TOPOLOGY,
        ),
        "machine.kfd": fact("machine.kfd", _kfd(host, nodes), kfd.TOPOLOGY),
        "machine.kfd_dev": fact("machine.kfd_dev", host.read(_KFD_DEV), _KFD_DEV),
        "machine.other_gpus": fact("machine.other_gpus", others if looked else nothing, source),
        "machine.nvidia": fact("machine.nvidia", nvidia, "/proc/driver/nvidia"),
        "machine.holders": fact("machine.holders", _holders(host), "/sys/class/kfd/kfd/proc"),
    }
    amd = bool(found) or any(node.hidden for node in hidden)
    facts["machine.amd"] = _whether("machine.amd", amd, "no AMD GPU is to be seen", looked, nothing)
    facts["machine.has_nvidia"] = _whether(
        "machine.has_nvidia", is_nvidia, "no NVIDIA GPU is to be seen", looked, nothing
    )
    several = len(
        [g for g in found if g["integrated"] is not True and g["driver"] not in drm.PASSED]
    )
    facts["machine.several"] = _whether(
        "machine.several", several > 1, "there is one GPU for work at most", looked, nothing
    )
    kind = "amd" if amd else "nvidia" if is_nvidia else "cpu"
    facts["machine.kind"] = fact("machine.kind", kind if looked else nothing, source)
    return facts


def _other(host: Host, one: drm.Device) -> dict[str, Any]:
    """A display or compute function that is not AMD's."""
    slot = f"{one.slot}.{one.function}"
    return {
        "slot": slot,
        "vendor": drm.VENDORS.get(one.vendor, one.vendor),
        "device": one.device,
        "driver": one.driver,
        "name": system.nvidia_model(host, slot) if one.vendor == "10de" else "",
    }


def _holders(host: Host) -> list[dict[str, int]] | Unknown:
    if complete(host) or host.exists("/sys/class/kfd/kfd/proc"):
        return system.holders(host)
    return Unknown("there is no /sys/class/kfd/kfd/proc")


def _kfd(host: Host, nodes: object) -> bool | Unknown:
    """Whether the kernel offers KFD's topology at all."""
    if not isinstance(nodes, Unknown):
        return True
    return False if complete(host) else nodes


def _whether(name: str, value: bool, otherwise: str, looked: bool, nothing: Unknown) -> Fact:
    """A condition of checks; when it is false, its source says why the claim is not made."""
    if not looked and not value:
        return nothing
    return Evidence(name, value, source="" if value else otherwise)


def _system(host: Host, process: Mapping[str, Any] | Unknown) -> dict[str, Fact]:
    whole = complete(host)
    release = system.kernel(host)
    rows: dict[str, tuple[object, str]] = {
        "kernel": (release, "/proc/sys/kernel/osrelease"),
        "os": (system.distribution(host), "/etc/os-release"),
        "dxg": (_dxg(host, whole), "/dev/dxg"),
        "container": (system.container(host, whole), "/.dockerenv, /proc/1/cgroup"),
        "cmdline": (system.command_line(host), "/proc/cmdline"),
        "iommu": (system.iommu(host, whole), "/sys/kernel/iommu_groups"),
        "driver": (system.driver(host, release, whole), "/sys/module/amdgpu, /var/lib/dkms"),
        "cpu": (system.processor(host), "/proc/cpuinfo"),
        "memory": (system.memory(host), "/proc/meminfo"),
        "log": (system.resets(host, process), "dmesg"),
        "glibc": (_glibc(process), "confstr"),
        "memlock": (_memlock(process), "getrlimit"),
        "folders": (access.section(process, "folders"), "statvfs, mounts"),
    }
    facts = {f"machine.{name}": fact(f"machine.{name}", *row) for name, row in rows.items()}
    wsl = system.wsl(host)
    facts["machine.wsl"] = (
        wsl
        if isinstance(wsl, Unknown)
        else Evidence("machine.wsl", wsl, source="" if wsl else "this is not WSL2")
    )
    return facts


def _dxg(host: Host, whole: bool) -> bool | Unknown:
    there = host.exists("/dev/dxg")
    return there if there or whole else Unknown("the captured tree has no /dev")


def _glibc(process: Mapping[str, Any] | Unknown) -> str | Unknown:
    libc: str | Unknown = access.section(process, "libc")
    if isinstance(libc, Unknown) or re.search(r"\d", libc):
        return libc
    return Unknown("the C library does not tell its version")


def _memlock(process: Mapping[str, Any] | Unknown) -> dict[str, Any] | Unknown:
    limit = access.section(process, "memlock")
    if isinstance(limit, Unknown):
        return limit
    return {"bytes": limit, "unlimited": limit is None}


def _nodes(process: Mapping[str, Any] | Unknown) -> dict[str, Fact]:
    """The device nodes that ROCm opens, and who may."""
    person = {name: access.section(process, name) for name in ("root", "groups")}
    unknown = next((part for part in person.values() if isinstance(part, Unknown)), None)
    nodes = access.section(process, "nodes")
    return {
        "machine.nodes": fact("machine.nodes", nodes, "open(2) for reading and writing"),
        "machine.person": fact("machine.person", unknown or person, "getgroups(2)"),
    }


def _software(host: Host, tables: Tables, process: Mapping[str, Any] | Unknown) -> dict[str, Fact]:
    python = access.section(process, "python")
    sites = [] if isinstance(python, Unknown) else list(python.get("sites", ()))
    packages = wheels.installed(host, sites)
    torch = python if isinstance(python, Unknown) else wheels.torch(host, packages)
    row = torch if isinstance(torch, Unknown) else wheels.expected(tables, torch)
    kind = "" if isinstance(torch, Unknown) else torch["kind"]
    unknown = isinstance(python, Unknown)
    facts: dict[str, Fact] = {
        "machine.python": fact("machine.python", python, "sys"),
        "machine.packages": fact(
            "machine.packages",
            python if unknown else {name: row["version"] for name, row in packages.items()},
            "names of dist-info folders",
        ),
        "machine.twice": fact(
            "machine.twice",
            python if unknown else wheels.twice(host, sites),
            "names of dist-info folders",
        ),
        "machine.torch": fact("machine.torch", torch, "torch/version.py and its dist-info"),
        "machine.expected": fact("machine.expected", row, "torch.toml"),
        "machine.rocm": fact(
            "machine.rocm",
            wheels.rocm_copies(host, sites, host.environ) or _nothing_found(host, "ROCm"),
            "files on disk",
        ),
        "machine.kernel_files": fact(
            "machine.kernel_files",
            python if unknown else wheels.kernel_files(host, sites) or _no_files(kind),
            "names of kernel files",
        ),
        "machine.binaries": fact(
            "machine.binaries",
            access.section(process, "binaries"),
            "ELF headers",
        ),
        "machine.variables": fact(
            "machine.variables",
            variables.is_set(host.environ, tables)
            if knows_environ(host)
            else Unknown("the captured tree has no environ.json that can be read"),
            "the environment",
        ),
    }
    none = torch.reason if isinstance(torch, Unknown) else f"torch {kind} is no ROCm build"
    for name, wanted in (("torch_rocm", "rocm"), ("torch_cuda", "cuda")):
        said = none if wanted == "rocm" else none.replace("ROCm", "CUDA")
        facts[f"machine.{name}"] = (
            python
            if isinstance(python, Unknown)
            else Evidence(f"machine.{name}", kind == wanted, source="" if kind == wanted else said)
        )
    facts["machine.has_torch"] = (
        python
        if isinstance(python, Unknown)
        else Evidence("machine.has_torch", bool(kind), source="" if kind else none)
    )
    return facts


def _nothing_found(host: Host, what: str) -> list[str] | Unknown:
    return [] if complete(host) else Unknown(f"the captured tree holds no file of {what}")


def _no_files(kind: str) -> Unknown:
    return Unknown(
        "no kernel files lie beside torch" if kind == "rocm" else "torch is no ROCm build"
    )


def _driver_pairs(tables: Tables, driver: Fact) -> Fact:
    """The row of this driver; null, and why, where no table has it."""
    if isinstance(driver, Unknown):
        return driver
    row: Any = known_bad.pairs(tables, driver.value)  # type: ignore[arg-type]
    none = "the driver is the kernel's own, or of no release that the tables know"
    return Evidence("machine.driver_pairs", row, source="rocm.toml, machine.toml" if row else none)


def _joined(tables: Tables, facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """What the tables say of these cards under this ROCm."""
    found = facts["machine.gpus"]
    devices: Any = [] if isinstance(found, Unknown) else found.value
    targets = sorted({gpu["gfx"] for gpu in devices if isinstance(gpu["gfx"], str)})
    torch = facts["machine.torch"]
    built: Mapping[str, Any] = torch.value if isinstance(torch, Evidence) else {}  # type: ignore[assignment]
    driver: Any = facts["machine.driver"]
    nvidia = facts["machine.nvidia"]
    packages: Any = facts["machine.packages"]
    shown = facts["machine.shown"]
    seen = [g["gfx"] for g in devices if isinstance(shown, Unknown) or g["index"] in shown.value]  # type: ignore[operator]
    return {
        "machine.bad_firmware": fact(
            "machine.bad_firmware", known_bad.firmware(tables) if targets else [], "machine.toml"
        ),
        "machine.cuda_drivers": fact(
            "machine.cuda_drivers",
            [] if isinstance(nvidia, Unknown) else known_bad.cuda_drivers(tables),
            "machine.toml",
        ),
        "machine.driver_pairs": _driver_pairs(tables, driver),
        "machine.library_rows": fact(
            "machine.library_rows",
            packages
            if isinstance(packages, Unknown)
            else wheels.library_rows(tables, packages.value, seen),
            "libs.toml",
        ),
        "machine.uses": fact(
            "machine.uses",
            Unknown("no GPU is known here")
            if isinstance(found, Unknown)
            else {gfx: uses.of(tables, gfx) for gfx in targets},
            "machine.toml",
        ),
        "machine.targets": fact(
            "machine.targets",
            Unknown("no GPU is known here") if isinstance(found, Unknown) else {
                gfx: arch.about(tables, gfx) for gfx in targets
            },
            "gpus.toml, rocm.toml",
        ),
        "machine.known_bad": fact(
            "machine.known_bad",
            found if isinstance(found, Unknown) else told(
                known_bad.matching(tables, targets, built.get("rocm"), built.get("release"))
            ),
            "rocm.toml",
        ),
    }  # fmt: skip
