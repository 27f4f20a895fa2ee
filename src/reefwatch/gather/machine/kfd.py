"""KFD's view: the nodes that compute, as ROCm counts them.

Source: Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c. One folder per node, CPUs included. New
kernels append fields; old ones lack `gfx_target_version`, `domain` and `num_xcc`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reefwatch.core.fact import Unknown
from reefwatch.gather.host import Host
from reefwatch.gather.machine.values import known, pairs, whole

TOPOLOGY = "/sys/class/kfd/kfd/topology"
_SAME = "/sys/devices/virtual/kfd/kfd/topology"
"""Where the link of the class leads to; a copied tree may have lost the link."""
_NO_ATOMICS = 0b1100
"""CRAT_IOLINK_FLAGS_NO_ATOMICS_32_BIT and _64_BIT of an io_link from a GPU to a CPU."""


@dataclass(frozen=True)
class Node:
    """One folder of the topology."""

    number: int
    fields: Mapping[str, str] = field(default_factory=dict)
    banks: tuple[Mapping[str, str], ...] = ()
    links: tuple[Mapping[str, str], ...] = ()
    hidden: str = ""
    """Why it could not be read; empty when it could."""
    masked: bool = False
    """Whether it is the kernel that does not show it, rather than a damaged file."""

    def value(self, name: str, low: int = 0, high: int = (1 << 64) - 1) -> int | Unknown:
        """A field as a number; Unknown for one that is not there, or is none."""
        if name not in self.fields:
            return Unknown(f"KFD node {self.number} has no {name} (an older kernel)")
        return whole(self.fields[name], f"{name} of KFD node {self.number}", low, high)

    @property
    def is_gpu(self) -> bool:
        """True when it has SIMDs. A node may be CPU and GPU at once on old APUs."""
        return known(self.value("simd_count", 1), 0) > 0

    @property
    def is_cpu(self) -> bool:
        return known(self.value("cpu_cores_count", 1), 0) > 0

    def slot(self) -> str | Unknown:
        """`0000:86:00`, without the function: partitions of one card differ in it."""
        where = self.value("location_id", 0, 0xFFFF)
        if isinstance(where, Unknown):
            return where
        domain = known(self.value("domain", 0, 0xFFFFFFFF), 0) if "domain" in self.fields else 0
        return f"{domain:04x}:{where >> 8:02x}:{where >> 3 & 0x1F:02x}"

    def gfx(self) -> str | Unknown:
        """`gfx90a` of 90010: major*10000 + minor*100 + stepping, the last two one hex digit."""
        target = self.value("gfx_target_version", 1, 639999)
        if isinstance(target, Unknown):
            return target
        major, minor, stepping = target // 10000, target // 100 % 100, target % 100
        if not major or minor > 15 or stepping > 15:
            return Unknown(f"gfx_target_version {target} of KFD node {self.number} is no target")
        return f"gfx{major}{minor:x}{stepping:x}"

    def memory(self) -> int | Unknown:
        """Bytes of device memory: banks of the frame buffer, else what old kernels say."""
        sizes = [
            whole(bank.get("size_in_bytes", ""), "size_in_bytes", 1)
            for bank in self.banks
            if bank.get("heap_type") in ("1", "2")
        ]
        good = [size for size in sizes if not isinstance(size, Unknown)]
        if good:
            return sum(good)
        local = self.value("local_mem_size", 1)
        if not isinstance(local, Unknown):
            return local
        return Unknown(f"KFD node {self.number} lists no bank of device memory")

    def atomics(self, cpus: frozenset[int]) -> bool | Unknown:
        """Whether PCIe atomics reach the CPU: the driver marks its links that lack them."""
        for link in self.links:
            flags = whole(link.get("flags", ""), "flags")
            if known(whole(link.get("node_to", ""), "node_to"), -1) in cpus and not isinstance(
                flags, Unknown
            ):
                return not flags & _NO_ATOMICS
        return Unknown(f"KFD node {self.number} shows no link to a processor")


def nodes(host: Host) -> tuple[Node, ...] | Unknown:
    """All nodes in the order of their numbers, in which HIP counts the GPUs among them."""
    for folder in (f"{TOPOLOGY}/nodes", f"{_SAME}/nodes"):
        names = [name for name in host.names(folder) if name.isascii() and name.isdecimal()]
        if names:
            return tuple(_node(host, f"{folder}/{name}", int(name[:9])) for name in names)
    return Unknown(f"there is no node in {TOPOLOGY}/nodes")


def _node(host: Host, folder: str, number: int) -> Node:
    text = host.read(f"{folder}/properties")
    if isinstance(text, Unknown):
        return Node(number, hidden=text.reason, masked=not text.reason.endswith("is empty"))
    fields = pairs(text)
    if "simd_count" not in fields and "cpu_cores_count" not in fields:
        return Node(number, hidden=f"{folder}/properties names neither cores nor SIMDs")
    node = Node(number, fields)
    for name in ("simd_count", "cpu_cores_count"):
        if name in fields and isinstance(wrong := node.value(name, 0), Unknown):
            return Node(number, hidden=wrong.reason)
    if not node.is_gpu:
        return node
    banks = host.find(f"{folder}/mem_banks/*/properties")[:64]
    links = host.find(f"{folder}/io_links/*/properties")[:256]
    return Node(
        number,
        fields,
        tuple(pairs(host.read(path)) for path in banks),
        tuple(pairs(host.read(path)) for path in links),
    )
