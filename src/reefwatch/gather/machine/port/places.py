"""A place that was found, and what all readers know of packages and names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """One place of one kind: the line (from 1), what was seen there, and whether it is guarded."""

    kind: str
    line: int
    what: str
    guarded: bool = False
    """Behind a test for ROCm, or an import that may fail: counted, and not told."""


MODULES = frozenset(
    (
        *("cupy", "pycuda", "tensorrt", "torch_tensorrt", "transformer_engine", "apex", "pynvml"),
        *("py3nvml", "nvidia_smi", "nvidia", "cudf", "cuml", "cugraph", "xformers", "flash_attn"),
        *("flash_attn_interface", "cuda", "cuquantum", "cutlass", "deep_gemm", "deep_ep"),
        *("flashinfer", "numba.cuda"),
    )
)
"""Modules for CUDA alone, or of which the usual build is."""
_PACKAGES = frozenset(
    (
        *("pycuda", "tensorrt", "torch-tensorrt", "transformer-engine", "xformers", "flash-attn"),
        *("apex", "faiss-gpu", "cudf", "cuml", "onnxruntime-gpu", "pynvml", "nvidia-ml-py"),
        *("auto-gptq", "exllamav2", "cuda-python", "mamba-ssm", "causal-conv1d", "flashinfer"),
        *("flashinfer-python", "cupy", "py3nvml", "cuda-bindings", "gpustat", "deep-gemm"),
    )
)
_PREFIXES = (
    *("nvidia-", "cupy-cuda", "tensorrt-", "transformer-engine-", "faiss-gpu-", "cudf-", "cuml-"),
    *("cuda-toolkit",),
)
_REQUIREMENT = re.compile(
    r"([A-Za-z][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*(?:[=<>~!;@].*|\^.*)?", re.DOTALL
)
_INDEX = re.compile(r"download\.pytorch\.org/whl/cu\d+|torch\w*==[\d.]+\+cu\d+|pypi\.nvidia\.com")
ROCM = re.compile(
    r"rocm|(?:^|_)hip(?:$|_)|(?:^|_)amd|gcnarchname|(?:^|_)gfx\d|(?:^|_)ck(?:$|_)|fnuz",
    re.IGNORECASE,
)
"""An identifier that asks for ROCm: `IS_HIP_EXTENSION`, `is_rocm`, `version.hip`."""
WARP_NAME = re.compile(
    r"_*k?_?warp(?:_?(?:size|sz|width|threads|lanes|len))?_*|_*(?:wave|wavefront)_?size_*"
    r"|\w*(?:threads|lanes)_?per_?warp\w*|\w+_warp_?size\w*|_*warp_?size\w*",
    re.IGNORECASE,
)
ARCH = re.compile(r"(?<![\w./-])(?:sm|compute)_(?:[5-9]\d|1[0-2]\d)[af]?(?![\w/-]|\.\w)")
"""A target of nvcc; not a part of a file's name (`compute_80.png`) or of a path."""


LIBRARY = re.compile(
    r"(?:^|/)(?:lib(?:cuda|cudart|nvrtc|cublas|cublasLt|cudnn|cufft|curand|cusolver|cusparse|cusparseLt"
    r"|nccl|nvidia-ml|nvToolsExt|cufile|cupti|nvJitLink|cutensor)[\w-]*\.so[\d.]*|nvcuda\.dll|nvml\.dll)$"
)
"""A library of CUDA's by the name of its file, as it is loaded by hand."""
SHORT_LIBRARY = frozenset(
    (
        "cuda",
        "cudart",
        "nvrtc",
        "cublas",
        "cublasLt",
        "cudnn",
        "cusparse",
        "cusparseLt",
        "nvidia-ml",
    )
)
"""The same as `find_library` takes them."""
HOMES = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDACXX", "CUDA_TOOLKIT_ROOT_DIR")
"""Variables that lead to CUDA's toolkit."""


def package(text: str) -> str:
    """The package of a requirement when it is for CUDA alone, else empty."""
    found = _REQUIREMENT.fullmatch(text.strip().strip("\"',"))
    name = re.sub(r"[-_.]+", "-", found[1]).lower() if found else ""
    return name if name in _PACKAGES or name.startswith(_PREFIXES) else ""


def index(text: str) -> str:
    """An index of CUDA wheels, or a pin to one; else empty."""
    found = _INDEX.search(text)
    return found[0] if found else ""


def once(places: Iterator[Place]) -> Iterator[Place]:
    """Each kind once on a line (each import): a guarded one gives way to one that is not."""
    best: dict[tuple[str, int, str], Place] = {}
    for place in places:
        key = (place.kind, place.line, place.what if place.kind == "import" else "")
        if key not in best or (best[key].guarded and not place.guarded):
            best[key] = place
    yield from sorted(best.values(), key=lambda place: place.line)
