"""Trees of machines that nobody has captured, as the kernel lays them out: with its links.

Made from what public reports and the kernel's documentation tell of real machines. The inventories
that they must give are in `../data/machine/synthetic`, written by hand from the reports.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

NODES = "sys/devices/virtual/kfd/kfd/topology/nodes"
GIB = 1 << 30


@dataclass
class Tree:
    """Files and links of a machine; links are path -> target, both below the root."""

    files: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)

    def write(self, root: Path) -> Path:
        for name, content in self.files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        for name, target in self.links.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            os.symlink(os.path.relpath(root / target, path.parent), path)
        return root

    def system(self, kernel: str = "6.14.0-33-generic", banner: str = "") -> Tree:
        self.files["proc/sys/kernel/osrelease"] = kernel + "\n"
        self.files["proc/version"] = banner or f"Linux version {kernel} (buildd@host) (gcc)\n"
        self.files["proc/meminfo"] = "MemTotal: 131072000 kB\nMemAvailable: 120000000 kB\n"
        self.files["etc/os-release"] = 'ID=ubuntu\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04"\n'
        return self

    def cpu(self, number: int) -> Tree:
        self.files[f"{NODES}/{number}/gpu_id"] = "0\n"
        self.files[f"{NODES}/{number}/properties"] = "cpu_cores_count 16\nsimd_count 0\n"
        self.links["sys/class/kfd/kfd"] = "sys/devices/virtual/kfd/kfd"
        return self

    def node(self, number: int, bank: int = 0, heap: int = 1, **fields: int) -> Tree:
        base = {"cpu_cores_count": 0, "simd_per_cu": 2, "wave_front_size": 32, "vendor_id": 4098,
                "domain": 0, "hive_id": 0, "num_xcc": 1, "local_mem_size": 0}  # fmt: skip
        text = "".join(f"{name} {value}\n" for name, value in (base | fields).items())
        folder = f"{NODES}/{number}"
        self.files[f"{folder}/properties"] = text
        self.files[f"{folder}/gpu_id"] = f"{1000 + number}\n"
        self.files[f"{folder}/name"] = "ip discovery\n"
        if bank:
            self.files[f"{folder}/mem_banks/0/properties"] = (
                f"heap_type {heap}\nsize_in_bytes {bank}\nflags 0\nwidth 384\n"
            )
        self.files[f"{folder}/io_links/0/properties"] = (
            f"type 2\nnode_from {number}\nnode_to 0\nweight 20\nflags 1\n"
        )
        self.links["sys/class/kfd/kfd"] = "sys/devices/virtual/kfd/kfd"
        return self

    def pci(self, path: str, ids: str, driver: str = "", kind: str = "030000",
            revision: str = "0x00", **files: str) -> Tree:  # fmt: skip
        """A function at the end of a path such as `0000:00:01.1/0000:03:00.0`."""
        slot = path.rpartition("/")[2]
        folder = f"sys/devices/pci{slot[:4]}:00/{path}"
        bound = f"DRIVER={driver}\n" if driver else ""
        self.files |= {
            f"{folder}/vendor": f"0x{ids[:4].lower()}\n",
            f"{folder}/device": f"0x{ids[5:].lower()}\n",
            f"{folder}/class": f"0x{kind}\n",
            f"{folder}/revision": revision + "\n",
            f"{folder}/uevent": f"{bound}PCI_CLASS={kind.lstrip('0')}\nPCI_ID={ids}\n"
            f"PCI_SLOT_NAME={slot}\nMODALIAS=pci:v\n",
            **{f"{folder}/{name.replace('__', '/')}": text for name, text in files.items()},
        }
        self.links[f"sys/bus/pci/devices/{slot}"] = folder
        if driver:
            self.files[f"sys/bus/pci/drivers/{driver}/bind"] = ""
            self.links[f"{folder}/driver"] = f"sys/bus/pci/drivers/{driver}"
        return self

    def drm(self, path: str, card: int, minor: int = 0, screens: str = "") -> Tree:
        """The card, and its render node, of a function."""
        folder = f"sys/devices/pci{path.rpartition('/')[2][:4]}:00/{path}"
        names = [f"card{card}", *([f"renderD{minor}"] if minor else ())]
        for name in names:
            self.files[f"{folder}/drm/{name}/dev"] = "226:0\n"
            self.links[f"{folder}/drm/{name}/device"] = folder
            self.links[f"sys/class/drm/{name}"] = f"{folder}/drm/{name}"
        for screen in filter(None, (screens,)):
            name = f"card{card}-{screen}"
            self.files[f"{folder}/drm/card{card}/{name}/status"] = "connected\n"
            self.links[f"sys/class/drm/{name}"] = f"{folder}/drm/card{card}/{name}"
        return self

    def capture(self, **process: object) -> Tree:
        """Marked as a probe's own capture: what is not there was not there."""
        self.files["capture.json"] = json.dumps({"schema": 1, "unreadable": {}})
        self.files["environ.json"] = "{}"
        self.files["process.json"] = json.dumps(process)
        return self


def _memory(vram: int, gtt: int, visible: int | None = None) -> dict[str, str]:
    return {
        "mem_info_vram_total": f"{vram}\n",
        "mem_info_vis_vram_total": f"{vram if visible is None else visible}\n",
        "mem_info_gtt_total": f"{gtt}\n",
        "mem_info_vram_used": "16777216\n",
    }


_LINK = {"current_link_speed": "16.0 GT/s PCIe\n", "current_link_width": "16\n",
         "max_link_speed": "16.0 GT/s PCIe\n", "max_link_width": "16\n"}  # fmt: skip


def mi300x_cpx_nps4() -> Tree:
    """One MI300X in eight partitions: only the first is a PCI function."""
    tree = Tree().system("6.8.0-60-generic").cpu(0).cpu(1)
    path = "0000:00:01.1/0000:03:00.0/0000:04:00.0/0000:05:00.0"
    for hop in (
        "0000:00:01.1",
        "0000:00:01.1/0000:03:00.0",
        "0000:00:01.1/0000:03:00.0/0000:04:00.0",
    ):
        tree.pci(hop, "1022:14AB" if hop == "0000:00:01.1" else "1002:1500", "pcieport", "060400")
    tree.pci(path, "1002:74A1", "amdgpu", "120000", current_compute_partition="CPX\n",
             current_memory_partition="NPS4\n", unique_id="e3aa140f9a5f9e31\n",
             **_memory(206141652992, 540819578880), **_LINK)  # fmt: skip
    tree.drm(path, 1, 128)
    for part in range(8):
        tree.node(2 + part, bank=25753026560, simd_count=152, simd_per_cu=4, wave_front_size=64,
                  gfx_target_version=90402, device_id=29857, location_id=1280 + part,
                  drm_render_minor=128 + part, unique_id=0xE3AA140F9A5F9E31, hive_id=77,
                  fw_version=177, sdma_fw_version=24)  # fmt: skip
        if part:
            folder = f"sys/devices/platform/amdgpu_xcp_{part - 1}"
            tree.files[f"{folder}/uevent"] = "DRIVER=amdgpu_xcp_drv\nMODALIAS=platform:amdgpu_xcp\n"
            for name in (f"card{1 + part}", f"renderD{128 + part}"):
                tree.files[f"{folder}/drm/{name}/dev"] = "226:0\n"
                tree.links[f"{folder}/drm/{name}/device"] = folder
                tree.links[f"sys/class/drm/{name}"] = f"{folder}/drm/{name}"
    return tree


def strix_halo() -> Tree:
    """An APU alone, with a large carve-out; its unique id is 0, its bank is GTT."""
    tree = Tree().system("6.18.0-4-generic").cpu(0)
    path = "0000:00:08.1/0000:c4:00.0"
    tree.pci("0000:00:08.1", "1022:150B", "pcieport", "060400")
    tree.pci(path, "1002:1586", "amdgpu", "038000", revision="0xc1",
             hwmon__hwmon3__name="amdgpu\n", hwmon__hwmon3__in1_label="vddnb\n",
             fw_version__mes_fw_version="0x00000083\n", ip_discovery__die__0__11__0__major="11\n",
             ip_discovery__die__0__11__0__minor="5\n", ip_discovery__die__0__11__0__revision="1\n",
             **_memory(536870912, 66043990016))  # fmt: skip
    tree.drm(path, 1, 128, "eDP-1")
    return tree.node(1, bank=66043990016, simd_count=80, gfx_target_version=110501,
                     device_id=5510, location_id=50176, drm_render_minor=128, unique_id=0,
                     fw_version=32, sdma_fw_version=14)  # fmt: skip


def _navi(tree: Tree, root: str, bus: int, revision: str, card: int, minor: int,
          **memory: str) -> str:  # fmt: skip
    """A discrete Navi: its own switch of two bridges stands between the slot and the GPU."""
    hops = [root, f"0000:{bus:02x}:00.0", f"0000:{bus + 1:02x}:00.0", f"0000:{bus + 2:02x}:00.0"]
    tree.pci(root, "1022:14DB", "pcieport", "060400")
    up = "/".join(hops[:2])
    tree.pci(up, "1002:1478", "pcieport", "060400", **_LINK)
    tree.pci("/".join(hops[:3]), "1002:1479", "pcieport", "060400", **_LINK)
    path = "/".join(hops)
    tree.pci(path, "1002:744C", "amdgpu", "030000", revision=revision, **_LINK, **memory)
    tree.drm(path, card, minor)
    return path


def two_navi_igpu() -> Tree:
    """An RX 7900 XTX, an RX 7900 XT of the same device id, and the processor's own GPU."""
    tree = Tree().system().cpu(0)
    _navi(tree, "0000:00:01.1", 1, "0xc8", 1, 128, **_memory(25753026560, 67000000000))
    _navi(tree, "0000:00:01.3", 5, "0xcc", 2, 129, **_memory(21458059264, 67000000000))
    tree.pci("0000:00:08.1", "1022:14DD", "pcieport", "060400")
    igpu = "0000:00:08.1/0000:0e:00.0"
    tree.pci(igpu, "1002:164E", "amdgpu", "030000", revision="0xc1",
             hwmon__hwmon1__name="amdgpu\n", hwmon__hwmon1__in1_label="vddnb\n",
             **_memory(536870912, 67000000000))  # fmt: skip
    tree.drm(igpu, 0, 130, "HDMI-A-1")
    tree.node(1, bank=25753026560, simd_count=192, gfx_target_version=110000, device_id=29772,
              location_id=0x300, drm_render_minor=128, unique_id=11, fw_version=2140)  # fmt: skip
    tree.node(2, bank=21458059264, simd_count=168, gfx_target_version=110000, device_id=29772,
              location_id=0x700, drm_render_minor=129, unique_id=12, fw_version=2140)  # fmt: skip
    return tree.node(10, bank=67000000000, simd_count=4, gfx_target_version=100306,
                     device_id=5710, location_id=0xE00, drm_render_minor=130, unique_id=0,
                     fw_version=21)  # fmt: skip


def wsl2() -> Tree:
    """WSL2: no amdgpu, no KFD, no PCI; a virtual device in their place."""
    kernel = "6.6.87.2-microsoft-standard-WSL2"
    tree = Tree().system(kernel, f"Linux version {kernel} (root@439a258ad544) (gcc)\n")
    tree.files["dev/dxg"] = ""
    tree.files["usr/lib/wsl/lib/libdxcore.so"] = ""
    return tree.capture(nodes={"/dev/kfd": {"open": "ENOENT"}}, root=False, groups=[1000])


def container_without_kfd() -> Tree:
    """A container that was given the render node alone; sysfs shows the host's card."""
    tree = Tree().system().cpu(0)
    _navi(tree, "0000:00:01.1", 1, "0xc8", 0, 128, **_memory(25753026560, 67000000000))
    tree.node(1, bank=25753026560, simd_count=192, gfx_target_version=110000, device_id=29772,
              location_id=0x300, drm_render_minor=128, unique_id=11, fw_version=2140)  # fmt: skip
    tree.files[".dockerenv"] = ""
    tree.files["dev/dri/renderD128"] = ""
    return tree.capture(
        nodes={"/dev/kfd": {"open": "ENOENT"},
               "/dev/dri/renderD128": {"open": "ok", "gid": 992, "mode": "0660"}},
        root=True, groups=[0],
    )  # fmt: skip


def sriov_guest() -> Tree:
    """A virtual function of an MI300X in a guest: an id of its own, one flat PCI bus."""
    tree = Tree().system("6.8.0-60-generic").cpu(0)
    tree.pci("0000:00:02.0", "1234:1111", "bochs-drm", "030000")
    tree.drm("0000:00:02.0", 0)
    tree.pci("0000:00:05.0", "1002:74B5", "amdgpu", "120000", **_memory(205520896000, 270000000000))
    tree.drm("0000:00:05.0", 1, 128)
    return tree.node(1, bank=205520896000, simd_count=1216, simd_per_cu=4, wave_front_size=64,
                     gfx_target_version=90402, device_id=29877, location_id=40,
                     drm_render_minor=128, unique_id=99, num_xcc=8, fw_version=177)  # fmt: skip


def sriov_host() -> Tree:
    """Its host: the card itself, and two functions of it that virtual machines hold."""
    tree = Tree().system("6.8.0-60-generic")
    tree.pci("0000:03:00.0", "1002:74A1", "gim", "120000")
    for slot in ("0000:03:02.0", "0000:03:02.1"):
        tree.pci(slot, "1002:74B5", "vfio-pci", "120000")
        tree.links[f"sys/devices/pci0000:00/{slot}/physfn"] = "sys/devices/pci0000:00/0000:03:00.0"
    return tree


def vfio_beside_a_card() -> Tree:
    """Two cards, one of them for a virtual machine; its audio function goes with it."""
    tree = Tree().system().cpu(0)
    _navi(tree, "0000:00:01.1", 1, "0xc8", 1, 128, **_memory(25753026560, 67000000000))
    tree.node(1, bank=25753026560, simd_count=192, gfx_target_version=110000, device_id=29772,
              location_id=0x300, drm_render_minor=128, unique_id=11, fw_version=2140)  # fmt: skip
    tree.pci("0000:00:01.3", "1022:14DB", "pcieport", "060400")
    tree.pci("0000:00:01.3/0000:0a:00.0", "1002:73BF", "vfio-pci", "030000", revision="0xc1")
    return tree.pci("0000:00:01.3/0000:0a:00.1", "1002:AB28", "vfio-pci", "040300")


def amd_and_nvidia() -> Tree:
    """An RX 7900 XTX beside a GeForce, whose driver names it."""
    tree = Tree().system().cpu(0)
    _navi(tree, "0000:00:01.1", 1, "0xc8", 1, 129, **_memory(25753026560, 67000000000))
    tree.node(1, bank=25753026560, simd_count=192, gfx_target_version=110000, device_id=29772,
              location_id=0x300, drm_render_minor=129, unique_id=11, fw_version=2140)  # fmt: skip
    tree.pci("0000:08:00.0", "10DE:2684", "nvidia", "030000", revision="0xa1")
    tree.drm("0000:08:00.0", 0, 128)
    tree.files["proc/driver/nvidia/version"] = (
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu\n"
    )
    tree.files["proc/driver/nvidia/gpus/0000:08:00.0/information"] = (
        "Model: \t\t NVIDIA GeForce RTX 4090\nIRQ:   \t\t 120\n"
    )
    return tree


def polaris() -> Tree:
    """An RX 580 in a slot without atomics: KFD of a recent kernel takes it, ROCm does not."""
    tree = Tree().system("6.8.0-60-generic").cpu(0)
    path = "0000:00:1c.0/0000:02:00.0"
    tree.pci("0000:00:1c.0", "8086:A110", "pcieport", "060400")
    tree.pci(path, "1002:67DF", "amdgpu", "030000", revision="0xe7", **_LINK,
             **_memory(8589934592, 16700000000, 268435456))  # fmt: skip
    tree.drm(path, 0, 128, "DP-1")
    tree.node(1, bank=8589934592, heap=2, simd_count=144, simd_per_cu=4, wave_front_size=64,
              gfx_target_version=80003, device_id=26591, location_id=512,
              drm_render_minor=128, unique_id=0, fw_version=730, sdma_fw_version=58)  # fmt: skip
    tree.files[f"{NODES}/1/io_links/0/properties"] = (
        "type 2\nnode_from 1\nnode_to 0\nweight 20\nflags 13\n"
    )
    return tree


def kfd_without_drm() -> Tree:
    """A masked container: KFD's nodes are there (one may not be read), DRM and PCI are not."""
    tree = Tree().system("5.15.0-140-generic").cpu(0).cpu(1)
    for number, bus in ((2, 0x63), (4, 0x43)):
        tree.node(number, bank=68702699520, simd_count=416, simd_per_cu=4, wave_front_size=64,
                  gfx_target_version=90010, device_id=29711, location_id=bus << 8,
                  drm_render_minor=126 + number, unique_id=500 + number, hive_id=3,
                  fw_version=78, sdma_fw_version=8)  # fmt: skip
    tree.files[f"{NODES}/3/gpu_id"] = "7\n"
    tree.files[f"{NODES}/3/name"] = "\n"
    return tree


def raven_apu() -> Tree:
    """An old APU: processor and GPU are one node of KFD's."""
    tree = Tree().system("5.15.0-140-generic")
    tree.pci("0000:00:08.1/0000:06:00.0", "1002:15DD", "amdgpu", "030000", revision="0xc6",
             **_memory(2147483648, 16000000000))  # fmt: skip
    tree.drm("0000:00:08.1/0000:06:00.0", 0, 128)
    return tree.node(0, bank=16000000000, heap=0, cpu_cores_count=8, simd_count=44, simd_per_cu=4,
                     wave_front_size=64, gfx_target_version=90000, device_id=5597,
                     location_id=1536, drm_render_minor=128, unique_id=0)  # fmt: skip


MACHINES: dict[str, Callable[[], Tree]] = {
    make.__name__: make
    for make in (
        mi300x_cpx_nps4, strix_halo, two_navi_igpu, wsl2, container_without_kfd, sriov_guest,
        sriov_host, vfio_beside_a_card, amd_and_nvidia, polaris, kfd_without_drm, raven_apu,
    )
}  # fmt: skip
