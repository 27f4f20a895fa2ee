"""What computes in an environment: distributions, their libraries, kernel databases, sources."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any

from reefwatch.core.fact import Unknown
from reefwatch.gather.machine.digests import Digests

_COMPUTE = re.compile(
    r"torch|torchvision|torchaudio|torchao|torchcodec|triton|triton-rocm|pytorch-triton(-rocm)?|"
    r"rocm(-.*)?|amd-torch.*|amd-aiter|aiter|nvidia-(?!ml-py).*|flash-attn.*|bitsandbytes|xformers|vllm|"
    r"deepspeed|apex|transformer-engine.*|fbgemm.*|numpy|lightning|pytorch-lightning|"
    r"transformers|accelerate|diffusers|peft|causal-conv1d|mamba-ssm|flashinfer.*|sgl-kernel"
)
_LIBRARY = re.compile(r"\.so(\.[\d.]+)?$")
_DATABASE = re.compile(
    r"\.(?:co|hsaco|dat|kdb|db|txt|model|aks2|hipfb|fatbin|cubin|json|yaml)$|/aotriton\.images/"
)
_DATABASE_FOLDER = re.compile(
    r"rocblas/library|hipblaslt/library|hipsparselt/library|miopen/db|aotriton\.images|rocfft|"
    r"fused_moe/configs|quantization/utils/configs"
)
_ROCM_LIBRARY = re.compile(
    r"lib(?:rocblas|hipblas|hipblaslt|hipsparselt|MIOpen|rccl|amdhip64|hsa-runtime64|hiprtc|"
    r"amd_comgr|hipfft|rocfft|rocsolver|hipsolver|rocsparse|hipsparse|rocrand|hiprand)\.so[.\d]*$"
)

Section = dict[str, Any]


def is_computing(name: str) -> bool:
    """Whether a distribution computes, so that its files are looked at and not only its number."""
    return _COMPUTE.fullmatch(canonical(name)) is not None


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def environment(sites: Sequence[str], digests: Digests, unknown: Section) -> dict[str, Section]:
    """Sections packages, tags, commits, libraries, databases, sources of these folders.

    What cannot be read goes into `unknown`, by "section.key", with the reason.
    """
    made: dict[str, Section] = {
        name: {} for name in ("packages", "tags", "commits", "libraries", "databases", "sources")
    }
    for site in sites:
        for one in metadata.distributions(path=[site]):
            name = canonical(one.metadata["Name"] or "")
            if not name or name in made["packages"]:
                continue
            made["packages"][name] = one.version
            tag = _tag(one)
            if tag:
                made["tags"][name] = tag
            if is_computing(name):
                _commit(name, one, site, made["commits"])
                _files(name, one, site, digests, made, unknown)
    return made


def _tag(one: metadata.Distribution) -> str:
    text = one.read_text("WHEEL") or ""
    return " ".join(sorted(re.findall(r"^Tag: (\S+)$", text, re.MULTILINE)))


def _commit(name: str, one: metadata.Distribution, site: str, commits: Section) -> None:
    """The commit that a build names: in its version, or in torch's version.py."""
    found = re.search(r"\bgit([0-9a-f]{7,40})\b", one.version.replace(".", " ").replace("+", " "))
    if found is None and name in ("torch", "torchvision", "torchaudio"):
        try:
            with open(os.path.join(site, name, "version.py"), encoding="utf-8") as file:
                text = file.read(1 << 16)
        except (OSError, UnicodeDecodeError):
            return
        found = re.search(
            r"git_version\s*(?::\s*[\w\[\]. |]+)?=\s*['\"]([0-9a-f]{7,40})['\"]", text
        )
    if found is not None:
        commits[name] = found[1]


def _files(
    name: str,
    one: metadata.Distribution,
    site: str,
    digests: Digests,
    made: Mapping[str, Section],
    unknown: Section,
) -> None:
    groups: dict[str, list[str]] = defaultdict(list)
    sources: list[str] = []
    for path in _walk(_tops(one, site), site):
        short = os.path.relpath(path, site)
        folder = _DATABASE_FOLDER.search(short)
        if _LIBRARY.search(path):
            _keep(made["libraries"], "libraries", short, digests.of(path), unknown)
        elif folder is not None or (_DATABASE.search(path) and _is_kernels(short)):
            groups[short[: folder.end()] if folder else os.path.dirname(short)].append(path)
        elif path.endswith(".py"):
            sources.append(path)
    for folder_name, paths in groups.items():
        _keep(made["databases"], "databases", folder_name, digests.tree(site, paths), unknown)
    if sources:
        _keep(made["sources"], "sources", name, digests.tree(site, sources), unknown)


def _is_kernels(path: str) -> bool:
    return path.endswith((".co", ".hsaco", ".kdb", ".hipfb", ".fatbin", ".cubin", ".aks2"))


def _tops(one: metadata.Distribution, site: str) -> list[str]:
    """The folders and files of a distribution directly below site-packages."""
    names = {file.parts[0] for file in one.files or () if file.parts and file.parts[0] != ".."}
    kept = (n for n in names if not n.endswith((".dist-info", ".egg-info", ".data")))
    return sorted(os.path.join(site, n) for n in kept if n not in ("bin", "__pycache__"))


def _walk(tops: Sequence[str], site: str) -> Iterator[str]:
    for top in tops:
        if os.path.isfile(top):
            yield top
        for folder, inside, files in os.walk(top):
            inside[:] = sorted(n for n in inside if n != "__pycache__")
            for file in sorted(files):
                path = os.path.join(folder, file)
                if not os.path.islink(path):
                    yield path


def system_rocm(
    roots: Sequence[str], digests: Digests, unknown: Section, base: str = ""
) -> dict[str, Section]:
    """Libraries and databases of ROCm installations outside the wheels; `base` is before a root."""
    made: dict[str, Section] = {"libraries": {}, "databases": {}}
    for root in roots:
        for path in _walk([base + os.path.join(root, "lib")], root):
            if _DATABASE_FOLDER.search(path) is None and _ROCM_LIBRARY.search(path):
                key = path.removeprefix(base)
                _keep(made["libraries"], "libraries", key, digests.of(path), unknown)
        for part in ("lib/rocblas/library", "lib/hipblaslt/library", "share/miopen/db"):
            key = os.path.join(root, part)
            paths = list(_walk([base + key], root))
            if paths:
                said = digests.tree(base + root, paths)
                _keep(made["databases"], "databases", key, said, unknown)
    return made


def _keep(section: Section, name: str, key: str, said: str | Unknown, unknown: Section) -> None:
    if isinstance(said, Unknown):
        unknown[f"{name}.{key}"] = said.reason
    else:
        section[key] = said
