"""What a lock holds: the machine and all that computes on it, as sections of plain values."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from reefwatch.core.fact import Evidence, Fact, Unknown
from reefwatch.data import table
from reefwatch.gather.host import Host, Ran
from reefwatch.gather.machine import computing
from reefwatch.gather.machine.digests import Digests

Section = dict[str, Any]
_PREFIXES = (
    *("TORCH_", "TORCHINDUCTOR_", "TORCHDYNAMO_", "PYTORCH_", "TRITON_", "CUDA_", "CUBLAS_"),
    *("CUDNN_", "NVIDIA_TF32", "NCCL_", "RCCL_", "HSA_", "HIP_", "HIPBLAS", "ROCR_", "ROCM_"),
    *("ROCBLAS_", "TENSILE_", "MIOPEN_", "AMD_", "GPU_", "AOTRITON_", "FLASH_ATTENTION_"),
    *("VLLM_", "AITER_", "OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "ATEN_", "DNNL_", "ONEDNN_"),
)
_NAMES = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONHASHSEED", "PYTHONPATH")
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|_KEY$|CREDENTIAL")

FLAGS = """
import json, warnings
warnings.simplefilter("ignore")
import torch
told = {}
def tell(name, get):
    try:
        told[name] = get()
    except Exception as error:
        told[name] = "not told: " + type(error).__name__
b = torch.backends
tell("cuda.matmul.allow_tf32", lambda: b.cuda.matmul.allow_tf32)
tell("cudnn.allow_tf32", lambda: b.cudnn.allow_tf32)
tell("float32_matmul_precision", torch.get_float32_matmul_precision)
for name in ("fp16", "bf16"):
    key = f"allow_{name}_reduced_precision_reduction"
    tell("cuda.matmul." + key, lambda: bool(getattr(b.cuda.matmul, key)))
tell("default_dtype", lambda: str(torch.get_default_dtype()))
tell("cudnn.enabled", lambda: b.cudnn.enabled)
tell("cudnn.benchmark", lambda: b.cudnn.benchmark)
tell("cudnn.deterministic", lambda: b.cudnn.deterministic)
tell("deterministic_algorithms", torch.are_deterministic_algorithms_enabled)
tell("sdp.flash", b.cuda.flash_sdp_enabled)
tell("sdp.mem_efficient", b.cuda.mem_efficient_sdp_enabled)
tell("sdp.math", b.cuda.math_sdp_enabled)
tell("mkldnn.enabled", lambda: b.mkldnn.enabled)
tell("threads", torch.get_num_threads)
print(json.dumps(told))
"""
"""Asked of a child process: torch's flags as a program finds them."""


def freeze(
    host: Host,
    facts: Mapping[str, Fact],
    digests: Digests,
    sites: Sequence[str],
    flags: bool = True,
) -> dict[str, Any]:
    """The sections by name, and under `unknown` what could not be read, with the reason.

    `facts` is the inventory of the machine; `sites` are the folders of the distributions.
    """
    unknown: Section = {}
    made: dict[str, Any] = {"system": _system(facts, unknown)}
    _cards(facts, made, unknown)
    base = str(getattr(host, "root", ""))  # of a captured machine
    roots = _rocm(facts, made, unknown, base)
    made |= computing.environment(sites, digests, unknown)
    for name, section in computing.system_rocm(roots, digests, unknown, base).items():
        made[name] |= section
    made["flags"] = _flags(host, made["packages"], unknown) if flags else {}
    if not flags:
        unknown["flags"] = "they were not asked for"
    made["environment"] = variables(host.environ)
    made["unknown"] = unknown
    return made


def variables(environ: Mapping[str, str]) -> Section:
    """The variables that can change what is computed; the home folder is written as `~`."""
    known = [row["name"] for row in table("compat/env_vars.toml")["var"]]
    exact = {name for name in known if "*" not in name} | set(_NAMES)
    starts = tuple(name.partition("*")[0] for name in known if "*" in name)
    home = environ.get("HOME", "")
    return {
        name: value.replace(home, "~") if len(home) > 1 else value
        for name, value in environ.items()
        if (name in exact or name.startswith((*_PREFIXES, *starts))) and not _SECRET.search(name)
    }


def _value(facts: Mapping[str, Fact], name: str, unknown: Section, key: str) -> Any:
    fact = facts.get(f"machine.{name}", Unknown("it was not looked for"))
    if isinstance(fact, Evidence):
        return fact.value
    unknown[key] = fact.reason
    return None


def _system(facts: Mapping[str, Fact], unknown: Section) -> Section:
    made: Section = {}
    for name in ("kernel", "glibc"):
        value = _value(facts, name, unknown, f"system.{name}")
        if value is not None:
            made[name] = value
    os_ = _value(facts, "os", unknown, "system.os")
    cpu = _value(facts, "cpu", unknown, "system.cpu")
    driver = _value(facts, "driver", unknown, "system.driver")
    python = _value(facts, "python", unknown, "system.python")
    container = _value(facts, "container", unknown, "system.container")
    nvidia = facts.get("machine.nvidia")
    if os_:
        made["os"] = str(os_.get("name") or os_.get("id", ""))
    if cpu:
        made["cpu"] = str(cpu.get("model", ""))
        made["cpu_threads"] = cpu.get("count", 0)
        made["cpu_vectors"] = (
            "avx512" if cpu.get("avx512") else "avx2" if cpu.get("avx2") else "sse"
        )
    if driver is not None:
        told = f"amdgpu {driver.get('kind', '')} {driver.get('version', '')}".strip()
        made["driver"] = " ".join(told.split()) if driver.get("loaded") else "no amdgpu"
    if isinstance(nvidia, Evidence) and isinstance(nvidia.value, Mapping):
        made["nvidia_driver"] = str(nvidia.value.get("driver", ""))
        cards: Any = nvidia.value.get("cards") or ()
        made |= {f"nvidia_card_{number}": str(card) for number, card in enumerate(cards)}
    if python:
        made["python"] = f"{python.get('implementation', '')} {python.get('version', '')}".strip()
    if container is not None:
        made["container"] = str(container or "none")
    return made


_CARD = ("name", "gfx", "compute_units", "vram", "slot", "partition")


def _cards(facts: Mapping[str, Fact], made: dict[str, Any], unknown: Section) -> None:
    cards = _value(facts, "gpus", unknown, "gpu")
    if cards is None:
        return
    made["gpu"] = {}
    made["firmware"] = {}
    for number, card in enumerate(cards):
        for field in _CARD:
            value = card.get(field)
            if isinstance(value, Mapping) and "unknown" in value:
                unknown[f"gpu.{number}.{field}"] = str(value["unknown"])
            elif value not in (None, ""):
                plain = value if isinstance(value, (str, int, bool)) else json.dumps(value)
                made["gpu"][f"{number}.{field}"] = plain
        for name, version in _firmware(card).items():
            made["firmware"][f"{number}.{name}"] = version


def _firmware(card: Mapping[str, Any]) -> Section:
    found = card.get("firmware")
    made = dict(found) if isinstance(found, Mapping) and "unknown" not in found else {}
    for field, name in (("mec_firmware", "mec"), ("sdma_firmware", "sdma")):
        if isinstance(card.get(field), int):
            made.setdefault(name, card[field])
    return {name: value for name, value in made.items() if isinstance(value, (int, str))}


def _rocm(
    facts: Mapping[str, Fact], made: dict[str, Any], unknown: Section, base: str
) -> list[str]:
    copies = _value(facts, "rocm", unknown, "rocm") or []
    made["rocm"] = {
        str(one.get("root", "")): str(one.get("version", "") or "no version") for one in copies
    }
    outside = [str(one["root"]) for one in copies if "site-packages" not in str(one["root"])]
    return [root for root in outside if os.path.isdir(base + root)]


def _flags(host: Host, packages: Section, unknown: Section) -> Section:
    if "torch" not in packages:
        unknown["flags"] = "torch is not installed"
        return {}
    ran = host.run([sys.executable, "-c", FLAGS], timeout=180.0)
    try:
        if isinstance(ran, Ran) and ran.code == 0:
            told: Section = json.loads(ran.out.splitlines()[-1])
            return told
    except (ValueError, IndexError):
        pass
    said = ran.reason if isinstance(ran, Unknown) else (ran.err.strip().splitlines() or ["?"])[-1]
    unknown["flags"] = f"torch does not tell its flags: {said}"
    return {}
