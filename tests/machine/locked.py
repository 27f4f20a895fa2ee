"""A small machine with an environment, made of files, that tests can change and freeze."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from reefwatch.api import lock
from reefwatch.gather.machine.freeze import FLAGS
from reefwatch.gather.machine.replay import CapturedHost

SYSFS = Path(__file__).parents[1] / "data" / "sysfs" / "rx6900xt"
_WHEELS = {
    "torch": ("2.13.0+rocm7.2", "cp311-cp311-manylinux_2_28_x86_64"),
    "triton-rocm": ("3.7.1+git0abc123", "cp311-cp311-linux_x86_64"),
    "bitsandbytes": ("0.50.2", "py3-none-manylinux_2_24_x86_64"),
    "rich": ("13.9.4", "py3-none-any"),
    "tokenizers": ("0.20.0", "cp39-abi3-manylinux_2_17_x86_64"),
}
_FILES = {
    "torch": {
        "torch/version.py": "__version__ = '2.13.0'\ngit_version = 'a1b2c3d4e5f6'\n",
        "torch/nn.py": "x = 1\n",
        "torch/lib/libtorch_hip.so": "hip",
        "torch/lib/librccl.so.1.0": "rccl",
        "torch/lib/libkineto.so": "kineto",
        "torch/lib/rocblas/library/TensileLibrary_gfx1100.dat": "tensile",
        "torch/lib/rocblas/library/TensileLibrary_gfx1100.co": "code",
        "torch/lib/hipblaslt/library/extop_gfx1100.co": "lt",
        "torch/share/miopen/db/gfx1030_36.HIP.fdb.txt": "find",
    },
    "triton-rocm": {"triton/__init__.py": "", "triton/_C/libtriton.so": "triton"},
    "bitsandbytes": {"bitsandbytes/libbitsandbytes_rocm72.so": "bnb"},
    "rich": {"rich/__init__.py": ""},
    "tokenizers": {"tokenizers/tokenizers.abi3.so": "tok"},
}
FLAGS_TOLD = {
    "cuda.matmul.allow_tf32": False,
    "float32_matmul_precision": "highest",
    "cudnn.benchmark": False,
    "threads": 2,
}


class Machine:
    """Files below `root`; `freeze()` is what a lock would hold of them."""

    def __init__(self, root: Path) -> None:
        self.root, self.site = root / "machine", root / "site-packages"
        shutil.copytree(SYSFS, self.root)
        self.put("proc/sys/kernel/osrelease", "6.8.0-49-generic\n")
        self.put(
            "etc/os-release",
            'ID=ubuntu\nVERSION_ID="24.04"\nNAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04"\n',
        )
        self.put("proc/cpuinfo", "processor : 0\nmodel name : CPU one\nflags : avx2\n")
        self.put("sys/module/amdgpu/version", "6.16.13\n")
        self.put("opt/rocm/.info/version", "7.2.0\n")
        self.put("opt/rocm/lib/librocblas.so.5", "rocblas")
        self.put("opt/rocm/lib/rocblas/library/Kernels_gfx1100.hsaco", "kernels")
        self.environ = {"HOME": "/home/ada", "TORCH_BLAS_PREFER_HIPBLASLT": "0", "NOISE": "1"}
        self.flags: dict[str, Any] = dict(FLAGS_TOLD)
        for name, (version, tag) in _WHEELS.items():
            self.wheel(name, version, tag)
        for files in _FILES.values():
            for path, text in files.items():
                self.put(path, text, self.site)

    def put(self, path: str, text: str, below: Path | None = None) -> None:
        where = (below or self.root) / path
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_text(text)

    def wheel(self, name: str, version: str, tag: str = "py3-none-any") -> None:
        short = name.replace("-", "_")
        for old in self.site.glob(f"{short}-*.dist-info"):
            shutil.rmtree(old)
        info = f"{short}-{version}.dist-info"
        self.put(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            self.site,
        )
        self.put(f"{info}/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n", self.site)
        files = [*_FILES.get(name, {}), f"{info}/METADATA"]
        self.put(f"{info}/RECORD", "".join(f"{path},,\n" for path in files), self.site)

    def freeze(self, paranoid: bool = False) -> lock.Frozen:
        self.put("environ.json", json.dumps(self.environ))
        told = {"argv": [sys.executable, "-c", FLAGS], "code": 0, "out": json.dumps(self.flags)}
        self.put("commands.json", json.dumps([told]))
        return lock.here(host=CapturedHost(self.root), sites=[str(self.site)], paranoid=paranoid)
