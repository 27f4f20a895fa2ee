"""What in a CUDA code base has to be looked at before it runs on ROCm.

PyTorch's ROCm build answers to `torch.cuda` and "cuda", and hipify translates most CUDA sources, so
plain use of them is nothing to look at. Found is what breaks, or means something else, there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MOST_HITS = 200
"""Of one kind; more are counted."""
_MOST_BYTES = 2 << 20
_SKIPPED = frozenset(
    (
        ".git",
        ".hg",
        "node_modules",
        "__pycache__",
        ".venv",
        "venv",
        "site-packages",
        ".tox",
        "build",
    )
)
_PYTHON = (".py", ".pyi", ".ipynb")
_NATIVE = (".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".hip", ".inl")
_SHELL = (".sh", ".bash", ".yml", ".yaml", ".toml", ".cfg", ".txt", ".mk", ".cmake", ".json", ".md")
_PACKAGES = (
    "nvidia-", "cupy", "pycuda", "tensorrt", "torch-tensorrt", "transformer-engine",
    "transformer_engine", "xformers", "flash-attn", "flash_attn", "apex", "faiss-gpu", "cudf",
    "onnxruntime-gpu", "pynvml", "nvidia_", "auto-gptq", "exllamav2", "cuda-python",
    "mamba-ssm", "causal-conv1d",
)  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """One kind of place: its pattern, and the files in which it means something."""

    kind: str
    pattern: re.Pattern[str]
    suffixes: tuple[str, ...]


@dataclass
class Found:
    """What a scan saw: hits, and how much was read."""

    hits: list[dict[str, Any]] = field(default_factory=list)
    files: int = 0
    lines: int = 0
    skipped: int = 0
    counts: dict[str, int] = field(default_factory=dict)


def _rule(kind: str, pattern: str, *suffixes: str) -> Rule:
    return Rule(kind, re.compile(pattern), suffixes)


RULES = (
    _rule("cuda version", r"torch\.version\.cuda\b", *_PYTHON),
    _rule(
        "warp",
        r"\bWARP_?SIZE\b\s*(?:=|\s)\s*32\b|\bwarpSize\s*==\s*32|\b(?:lane|threadIdx\.x)\w*\s*(?:%\s*32\b"
        r"|&\s*(?:31|0x1[fF])\b)|\bthreadIdx\.x\s*(?:/\s*32\b|>>\s*5\b)"
        r"|__(?:shfl\w*|ballot|any|all|activemask|match\w*)_sync\s*\(\s*(?:0x[fF]{8}\b|-1|~0)",
        *_NATIVE,
        ".py",
    ),
    _rule(
        "tf32",
        r"\ballow_tf32\b|\bset_float32_matmul_precision\b|\bNVIDIA_TF32_OVERRIDE\b"
        r"|\bTORCH_ALLOW_TF32\w*|\bfp32_precision\b",
        *_PYTHON,
        *_SHELL,
    ),
    _rule(
        "extension",
        r"\bCUDAExtension\b|\bcuda_sources\b|\bextra_cuda_cflags\b|\bCUDA_HOME\b|\bCUDA_PATH\b"
        r"|-gencode\b|--use_fast_math\b|--expt-\w+|\bnvcc\b",
        ".py",
        ".toml",
        ".cfg",
        ".cmake",
        ".txt",
        ".sh",
        ".mk",
    ),
    _rule("smi", r"\bnvidia-smi\b|\bnvmlInit\w*|\bpynvml\.\w+", *_PYTHON, ".sh", ".bash", ".yml"),
    _rule(
        "import",
        r"^\s*(?:from|import)\s+(?:cupy|pycuda|tensorrt|torch_tensorrt|transformer_engine|apex|pynvml"
        r"|numba\.cuda|nvidia\.dali|cudf|xformers|flash_attn|cuda)\b|^\s*from\s+numba\s+import\s+.*\bcuda\b",
        *_PYTHON,
    ),
    _rule(
        "capability",
        r"\bget_device_capability\b|\bTORCH_CUDA_ARCH_LIST\b|\b(?:sm|compute)_[5-9]\d\b|\bsm_1[0-2]\d\b"
        r"|\b__CUDA_ARCH__\b",
        *_PYTHON,
        *_NATIVE,
        *_SHELL,
    ),
    _rule(
        "ptx",
        r"\basm\s+volatile\b|\basm\s*\(\s*\"|\bwgmma\b|\bcp\.async\b|\bldmatrix\b|\bmma\.sync\b"
        r"|\binline_asm_elementwise\b|#include\s*[<\"](?:cutlass|cute|mma\.h|cooperative_groups/)",
        *_NATIVE,
        ".py",
    ),
    _rule(
        "container",
        r"\bFROM\s+(?:nvidia/cuda|nvcr\.io/)|--gpus[ =]|\bruntime:\s*nvidia\b|\bdriver:\s*nvidia\b"
        r"|\bnvidia\.com/gpu\b",
        *_SHELL,
        ".py",
        "Dockerfile",
    ),
    _rule("fp8", r"\bfloat8_e4m3fn\b|\bfloat8_e5m2\b(?!fnuz)", *_PYTHON),
    _rule("hip device", r"(?:\.to|device)\(\s*[\"'](?:hip|rocm)(?::\d+)?[\"']", *_PYTHON),
)


def scan(root: Path) -> Found:
    """Every place, in the order of the files. A file that cannot be read is counted as skipped."""
    found = Found()
    for path in _files(root):
        text = _text(path)
        if text is None:
            found.skipped += 1
            continue
        found.files += 1
        found.lines += text.count("\n") + 1
        _source(found, path)
        name = path.name
        for number, line in enumerate(text.splitlines(), 1):
            for kind, what in _in_line(path, name, line):
                _hit(found, kind, path, number, what, line)
    return found


def _files(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in _SKIPPED and not f.endswith(".egg-info"))
        for name in sorted(names):
            if name.endswith((*_PYTHON, *_NATIVE, *_SHELL)) or name.startswith("Dockerfile"):
                yield Path(folder, name)


def _text(path: Path) -> str | None:
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return None
        raw = path.read_bytes()
    except OSError:
        return None
    return None if b"\0" in raw[:8192] else raw.decode(errors="replace")


def _source(found: Found, path: Path) -> None:
    if path.suffix in (".cu", ".cuh"):
        _hit(found, "extension", path, 1, f"a CUDA source, {path.name}", "")


def _in_line(path: Path, name: str, line: str) -> Iterator[tuple[str, str]]:
    bare = line.strip()
    if not bare or re.match(r"//|#(?!include|define)", bare):
        return
    code = line.split("  #")[0] if path.suffix == ".py" else line
    for rule in RULES:
        if name.endswith(rule.suffixes) or (name.startswith("Dockerfile") and _docker(rule)):
            hit = rule.pattern.search(code)
            if hit:
                yield rule.kind, hit[0].strip()
    package = _package(name, bare)
    if package:
        yield "requirement", package


def _docker(rule: Rule) -> bool:
    return "Dockerfile" in rule.suffixes or ".sh" in rule.suffixes


_REQUIREMENT = re.compile(r"^[\s\"'-]*([A-Za-z][\w.-]*(?:\[[^\]]*\])?)\s*(?:[=<>~!;,\"'@ ].*)?$")
_INDEX = re.compile(r"download\.pytorch\.org/whl/cu\d+|torch\w*==[\d.]+\+cu\d+|pypi\.nvidia\.com")


def _package(name: str, line: str) -> str:
    """A package that is for CUDA alone, or an index of CUDA wheels; empty for other lines."""
    index = _INDEX.search(line)
    if index and (name.endswith(_SHELL) or name.startswith("Dockerfile") or name == "setup.py"):
        return index[0]
    if not (
        name.startswith(("requirements", "constraints", "environment"))
        or name in ("pyproject.toml", "setup.cfg", "setup.py", "Pipfile", "conda.yml")
        or "requirements" in name
    ):
        return ""
    found = _REQUIREMENT.match(line)
    package = found[1].lower() if found else ""
    return package if package.startswith(_PACKAGES) and not line.endswith(("(", "[", "{")) else ""


def _hit(found: Found, kind: str, path: Path, line: int, what: str, text: str) -> None:
    found.counts[kind] = found.counts.get(kind, 0) + 1
    if found.counts[kind] <= MOST_HITS:
        row = {"kind": kind, "file": os.path.abspath(path), "line": line, "what": what[:120]}
        found.hits.append({**row, "text": text.strip()[:160]})
