"""Machines made up for tests: trees as a capture holds them, from values of public reports."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NODES = "sys/class/kfd/kfd/topology/nodes"
SITE = "captured/site-0"
CPU_NODE = "cpu_cores_count 16\nsimd_count 0\n"


def node(**fields: int) -> str:
    """A GPU node of an RX 7900 XTX, with other values for some fields."""
    base = {
        "cpu_cores_count": 0, "simd_count": 192, "simd_per_cu": 2, "wave_front_size": 32,
        "gfx_target_version": 110000, "vendor_id": 4098, "device_id": 29772, "location_id": 768,
        "domain": 0, "drm_render_minor": 128, "unique_id": 81985529216486895, "hive_id": 0,
        "num_xcc": 1, "fw_version": 2140, "sdma_fw_version": 20,
    }  # fmt: skip
    return "".join(f"{name} {value}\n" for name, value in (base | fields).items())


def card(slot: str, ids: str, **files: str) -> dict[str, str]:
    """The files of `device/` of one card in DRM's view."""
    uevent = f"DRIVER=amdgpu\nPCI_CLASS=30000\nPCI_ID={ids}\nPCI_SLOT_NAME={slot}\n"
    return {"uevent": uevent, "vendor": "0x" + ids[:4].lower() + "\n", **files}


def write(
    root: Path, files: Mapping[str, str | bytes], links: Mapping[str, str] | None = None
) -> Path:
    """Make the tree; `links` are path -> target, both below the root."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for name, target in (links or {}).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(os.path.relpath(root / target, path.parent), path)
    return root


def process(**changed: Any) -> dict[str, Any]:
    """What a user may do on a sound machine."""
    ok = {"open": "ok", "gid": 109, "mode": "0660"}
    return {
        "nodes": {"/dev/kfd": ok, "/dev/dri/renderD128": ok},
        "root": False,
        "groups": [109, 1000],
        "python": {"version": "3.12.3", "executable": "/usr/bin/python3", "sites": ["/" + SITE]},
        "libc": "glibc 2.39",
        "memlock": None,
        "folders": {
            "miopen cache": {"path": "~/.cache/miopen", "disk": "ext4", "writable": True,
                             "free": 10**11},
        },
        "binaries": {},
        **changed,
    }  # fmt: skip


def desktop(**changed: Any) -> dict[str, str]:
    """A sound desktop with one RX 7900 XTX and torch 2.13 of the rocm7.2 index.

    Keywords change `process`, `environ`, `packages` (name -> version), or a file (by its path with
    `__` for `/`); a file that is None is left out.
    """
    who = process(**changed.pop("process", {}))
    environ = changed.pop("environ", {})
    packages = {
        "torch": "2.13.0+rocm7.2", "torchvision": "0.28.0+rocm7.2", "triton_rocm": "3.7.1",
    } | changed.pop("packages", {})  # fmt: skip
    pci = "sys/bus/pci/devices/0000:03:00.0"
    files: dict[str, str | None] = {
        f"{NODES}/0/properties": CPU_NODE,
        f"{NODES}/1/properties": node(),
        f"{NODES}/1/gpu_id": "24248\n",
        f"{NODES}/1/mem_banks/0/properties": "heap_type 1\nsize_in_bytes 25753026560\n",
        f"{NODES}/1/io_links/0/properties": "type 2\nnode_from 1\nnode_to 0\nflags 1\n",
        "sys/class/drm/card0-DP-1/status": "disconnected\n",
        "proc/sys/kernel/osrelease": "6.18.2-generic\n",
        "proc/version": "Linux version 6.18.2-generic (gcc)\n",
        "proc/cmdline": "BOOT_IMAGE=/vmlinuz root=UUID=1 quiet\n",
        "proc/cpuinfo": "processor\t: 0\nmodel name\t: A Processor\nflags\t\t: fpu avx2\n\n",
        "proc/meminfo": "MemTotal: 65536000 kB\nMemAvailable: 60000000 kB\nSwapTotal: 0 kB\n",
        "etc/os-release": 'ID=ubuntu\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04.5 LTS"\n',
        "sys/module/amdgpu/parameters/cwsr_enable": "1\n",
        "environ.json": json.dumps(environ),
        "commands.json": json.dumps([{"argv": ["dmesg"], "code": 0, "out": "", "err": ""}]),
        "process.json": json.dumps(who),
        "capture.json": json.dumps({"schema": 1, "unreadable": {}}),
        f"{SITE}/torch/version.py": "hip: Optional[str] = '7.2.53211'\ncuda = None\n",
        f"{SITE}/torch/lib/libamdhip64.so": "",
        f"{SITE}/torch/lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat": "",
        f"{pci}/class": "0x030000\n",
    }
    drm = card(
        "0000:03:00.0", "1002:744C", revision="0xc8\n", mem_info_vram_total="25753026560\n",
        mem_info_vram_used="800000000\n", mem_info_vis_vram_total="25753026560\n",
        mem_info_gtt_total="33000000000\n", current_link_speed="16.0 GT/s PCIe\n",
        current_link_width="16\n", max_link_speed="16.0 GT/s PCIe\n", max_link_width="16\n",
    )  # fmt: skip
    files |= {f"sys/class/drm/card0/device/{name}": text for name, text in drm.items()}
    for name, version in packages.items():
        if version:
            files[f"{SITE}/{name}-{version}.dist-info/METADATA"] = f"Name: {name}\n"
    pin = "Requires-Dist: triton-rocm==3.7.1; platform_system == 'Linux'\n"
    files[f"{SITE}/torch-{packages['torch']}.dist-info/METADATA"] = f"Name: torch\n{pin}"
    files |= {name.replace("__", "/"): text for name, text in changed.items()}
    return {name: text for name, text in files.items() if text is not None}
