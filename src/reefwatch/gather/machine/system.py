"""Kernel, distribution, driver, container, processor and memory, from files alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from reefwatch.core.fact import Unknown
from reefwatch.gather.host import Host
from reefwatch.gather.machine.values import known, pairs, whole

_CMDLINE = (
    "iommu=", "amd_iommu=", "intel_iommu=", "amdgpu.", "amdkfd.", "pci=", "pcie_", "ttm.",
    "nomodeset", "modprobe.blacklist=", "module_blacklist=", "vfio-pci.ids=", "hugepages",
)  # fmt: skip
_NVIDIA_GPUS = "/proc/driver/nvidia/gpus"
_PARAMETERS = ("cwsr_enable", "noretry", "mes", "vm_fragment_size", "ppfeaturemask", "gttsize")


def kernel(host: Host) -> str | Unknown:
    """The release, as `uname -r` prints it."""
    release = host.read("/proc/sys/kernel/osrelease")
    if not isinstance(release, Unknown):
        return release.split()[0][:100]
    banner = host.read("/proc/version")
    found = None if isinstance(banner, Unknown) else re.match(r"Linux version (\S{1,100})", banner)
    return found[1] if found else release


def distribution(host: Host) -> dict[str, str] | Unknown:
    """`id`, `version` and `name` of /etc/os-release."""
    text = host.read("/etc/os-release")
    if isinstance(text, Unknown):
        text = host.read("/usr/lib/os-release")
    if isinstance(text, Unknown):
        return text
    facts = {key: value.strip("\"'")[:100] for key, value in pairs(text, "=").items()}
    return {
        "id": facts.get("ID", ""),
        "version": facts.get("VERSION_ID", ""),
        "name": facts.get("PRETTY_NAME", ""),
    }


def wsl(host: Host) -> bool | Unknown:
    """True under WSL2, where /dev/dxg stands in for the driver."""
    banner = host.read("/proc/version")
    return banner if isinstance(banner, Unknown) else "microsoft" in banner.lower()


def container(host: Host, complete: bool) -> str | Unknown:
    """`docker`, `podman` and so on; empty outside of one."""
    if host.exists("/.dockerenv"):
        return "docker"
    if host.exists("/run/.containerenv"):
        return "podman"
    kind = host.environ.get("container", "")
    if kind:
        return kind[:40]
    groups = host.read("/proc/1/cgroup")
    if isinstance(groups, Unknown):
        return "" if complete else groups
    found = re.search(r"docker|kubepods|containerd|lxc|libpod|slurm_container", groups)
    return found[0] if found else ""


def command_line(host: Host) -> list[str] | Unknown:
    """The kernel's options that matter to a GPU; the others are not kept."""
    text = host.read("/proc/cmdline")
    if isinstance(text, Unknown):
        return text
    return [word[:200] for word in text.split() if word.startswith(_CMDLINE)]


def iommu(host: Host, complete: bool) -> bool | Unknown:
    """Whether an IOMMU is at work: it then has groups."""
    if host.names("/sys/kernel/iommu_groups"):
        return True
    if complete or host.exists("/sys/kernel/iommu_groups"):
        return False
    return Unknown("/sys/kernel/iommu_groups is not there")


def driver(host: Host, release: str | Unknown, complete: bool) -> dict[str, Any] | Unknown:
    """The amdgpu module: loaded, in-tree or DKMS, its version and the parameters that matter.

    AMD's own module has a version file and the kernel's has none. Source: notes of AMD's driver
    releases; the file holds 6.16.13 or 7.1.3.31500000, not the number of the release.
    """
    folder = "/sys/module/amdgpu"
    loaded = host.exists(folder)
    if not loaded and not complete:
        return Unknown(f"there is no {folder}")
    version = host.read(f"{folder}/version")
    values = {name: host.read(f"{folder}/parameters/{name}") for name in _PARAMETERS}
    return {
        "loaded": loaded,
        "kind": ("in-tree" if isinstance(version, Unknown) else "dkms") if loaded else "",
        "version": "" if isinstance(version, Unknown) else version.split()[0][:60],
        "parameters": {k: v[:40] for k, v in values.items() if not isinstance(v, Unknown)},
        "built": _built(host, known(release, "")),
    }


def _built(host: Host, release: str) -> dict[str, Any]:
    """For which kernels AMD's module was built: versions known to DKMS, and modules on disk."""
    versions = [name for name in host.names("/var/lib/dkms/amdgpu") if name[:1].isdigit()]
    built = sorted(
        {
            kernel
            for version in versions
            for kernel in host.names(f"/var/lib/dkms/amdgpu/{version}")
            if kernel not in ("source", "build") and kernel[:1].isdigit()
        }
    )
    return {"dkms": versions[:8], "kernels": built[:20], "running": bool(release in built)}


def processor(host: Host) -> dict[str, Any] | Unknown:
    """Model, number of logical processors, and whether it has AVX2."""
    text = host.read("/proc/cpuinfo")
    if isinstance(text, Unknown):
        return text
    first = pairs(text.partition("\n\n")[0], ":")
    flags = first.get("flags", first.get("Features", "")).split()
    return {
        "model": first.get("model name", first.get("CPU implementer", ""))[:100],
        "count": len(re.findall(r"^processor\s*:", text, re.MULTILINE)),
        "avx2": "avx2" in flags if "flags" in first else None,
        "avx512": "avx512f" in flags if "flags" in first else None,
    }


def memory(host: Host) -> dict[str, int] | Unknown:
    """Bytes of RAM: total, available, swap."""
    text = host.read("/proc/meminfo")
    if isinstance(text, Unknown):
        return text
    facts = pairs(text, ":")
    found = {}
    for name, key in (("total", "MemTotal"), ("available", "MemAvailable"), ("swap", "SwapTotal")):
        size = whole(facts.get(key, "").removesuffix("kB").strip(), key, 0, 1 << 50)
        if not isinstance(size, Unknown):
            found[name] = size * 1024
    return found or Unknown("/proc/meminfo lists no memory")


def nvidia(host: Host) -> dict[str, Any] | Unknown:
    """NVIDIA's driver and its cards, from /proc/driver/nvidia."""
    text = host.read("/proc/driver/nvidia/version")
    if isinstance(text, Unknown):
        return text
    found = re.search(r"(\d{3,4}\.\d{1,4}(?:\.\d{1,4})?)", text)
    models = [nvidia_model(host, slot) for slot in host.names(_NVIDIA_GPUS)[:64]]
    return {"driver": found[1] if found else "", "cards": [name for name in models if name]}


def nvidia_model(host: Host, slot: str) -> str:
    """The name of NVIDIA's card in a slot, by its driver; empty when that does not know it."""
    return pairs(host.read(f"{_NVIDIA_GPUS}/{slot}/information"), ":").get("Model", "")[:100]


def holders(host: Host) -> list[dict[str, int]]:
    """Processes that compute on a GPU: pid and bytes of VRAM, by KFD's account."""
    found = []
    for name in host.names("/sys/class/kfd/kfd/proc")[:256]:
        if not (name.isascii() and name.isdecimal()):
            continue
        files = [f for f in host.names(f"/sys/class/kfd/kfd/proc/{name}") if f.startswith("vram_")]
        sizes = [
            whole(host.read(f"/sys/class/kfd/kfd/proc/{name}/{file}"), file) for file in files[:64]
        ]
        held = sum(known(size, 0) for size in sizes)
        found.append({"pid": int(name[:9]), "vram": held})
    return found


def resets(host: Host, process: Mapping[str, Any] | Unknown) -> list[str] | Unknown:
    """Lines of the kernel's log that tell of hangs, resets, faults and missing atomics."""
    told = host.run(["dmesg"], timeout=2.0)
    if isinstance(told, Unknown):
        return Unknown(f"the kernel's log cannot be read ({told.reason})")
    if told.code:
        return Unknown("the kernel's log may not be read by this user: sudo dmesg | grep amdgpu")
    lines = [line.strip()[:200] for line in told.out[-(1 << 20) :].splitlines()]
    return [line for line in lines if _TROUBLE.search(line)][-20:]


_TROUBLE = re.compile(
    r"amdgpu.*(?:ring \S+ timeout|GPU reset(?! succ)|MES (?:failed|might)|page fault)"
    r"|HW Exception by GPU|PCIE atomic ops is not supported|\[gfxhub0?\].*page fault",
    re.IGNORECASE,
)
