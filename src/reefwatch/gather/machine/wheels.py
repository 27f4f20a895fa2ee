"""What is installed for this Python, from names and metadata on disk: torch is not imported."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from reefwatch.core.fact import Unknown
from reefwatch.data.tables import Tables, grade
from reefwatch.gather.host import Host

WANTED = (
    "torch", "torchvision", "torchaudio", "torchao", "torchcodec", "triton", "triton-rocm",
    "pytorch-triton", "pytorch-triton-rocm", "amd-torch-device-*", "amd-torchvision-device-*",
    "rocm", "rocm-sdk-*", "flash-attn", "bitsandbytes", "xformers", "vllm", "deepspeed",
    "transformer-engine", "transformers", "accelerate", "lightning", "pytorch-lightning", "apex",
    "aiter", "amd-aiter", "numpy",
)  # fmt: skip
"""Packages that compute, or that say which of them belong together."""
ROCM_LIBRARY = "libamdhip64.so"
_GFX = re.compile(r"gfx[0-9]{1,2}[0-9a-f]{2}(?![0-9a-f])")
_FIELD = re.compile(r"^(hip|cuda|rocm)\s*(?::[^=]*)?=\s*(?:'([^']*)'|\"([^\"]*)\"|None)", re.M)
_OWN = re.compile(r"^__version__\s*=\s*['\"]([^'\"]+)['\"]", re.M)
_TAG = re.compile(r"(rocm|cu|cpu|xpu)([0-9.]*)")


def normal(name: str) -> str:
    """A distribution's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def wanted(name: str) -> bool:
    name = normal(name)
    return name in WANTED or any(fnmatchcase(name, pattern) for pattern in WANTED if "*" in pattern)


def installed(host: Host, sites: Sequence[str]) -> dict[str, dict[str, str]]:
    """By name: version and site folder; the first on the path counts, as for an import.

    Of several versions in one folder (an installation that was cut off) torch's own file tells.
    """
    found: dict[str, dict[str, str]] = {}
    for site in sites:
        for name, versions in _versions(host, site).items():
            own = _own_version(host, site) if name == "torch" and len(versions) > 1 else ""
            version = own if own in versions else versions[0]
            found.setdefault(name, {"version": version, "site": site})
    return found


def twice(host: Host, sites: Sequence[str]) -> dict[str, list[str]]:
    """The packages of which one folder holds several versions, by name."""
    found: dict[str, list[str]] = {}
    for site in sites:
        for name, versions in _versions(host, site).items():
            if len(versions) > 1:
                found.setdefault(name, versions)
    return found


def _versions(host: Host, site: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for entry in host.names(site):
        if entry.endswith(".dist-info"):
            name, _, version = entry.removesuffix(".dist-info").partition("-")
            if version and wanted(name):
                found.setdefault(normal(name), []).append(version)
    return found


def _own_version(host: Host, site: str) -> str:
    text = host.read(f"{site}/torch/version.py")
    found = None if isinstance(text, Unknown) else _OWN.search(text)
    return found[1] if found else ""


def torch(host: Host, packages: Mapping[str, Mapping[str, str]]) -> dict[str, Any] | Unknown:
    """Version, tag and kind (`rocm`, `cuda`, `cpu`) of torch, from its version.py."""
    package = packages.get("torch")
    if package is None:
        return Unknown("torch is not installed for this Python")
    site, version = package["site"], package["version"]
    text = host.read(f"{site}/torch/version.py")
    built = {} if isinstance(text, Unknown) else {
        name: one or other or None for name, one, other in _FIELD.findall(text)
    }  # fmt: skip
    release, _, tag = version.partition("+")
    kind = _kind(built, tag)
    rocm = built.get("rocm") or (tag.removeprefix("rocm") if tag.startswith("rocm") else None)
    return {
        "version": version,
        "release": release,
        "tag": tag,
        "kind": kind,
        "hip": built.get("hip"),
        "cuda": built.get("cuda"),
        "rocm": rocm,
        "site": site,
        "triton": _pin(host, site, version),
    }


def _kind(built: Mapping[str, str | None], tag: str) -> str:
    if built.get("hip"):
        return "rocm"
    if built.get("cuda"):
        return "cuda"
    if built:
        return "cpu"
    found = _TAG.match(tag)
    return {"rocm": "rocm", "cu": "cuda", "cpu": "cpu"}.get(found[1] if found else "", "unknown")


def _pin(host: Host, site: str, version: str) -> dict[str, str] | None:
    """The Triton that this torch asks for: package and version."""
    text = host.read(f"{site}/torch-{version}.dist-info/METADATA")
    if isinstance(text, Unknown):
        return None
    found = re.search(
        r"^Requires-Dist:\s*((?:pytorch-)?triton(?:-rocm)?)\s*\(?==\s*([^;,)\s]+)", text, re.M
    )
    return {"package": found[1], "version": found[2]} if found else None


def rocm_copies(
    host: Host, sites: Sequence[str], environ: Mapping[str, str]
) -> list[dict[str, str]]:
    """Every copy of ROCm's runtime that could be loaded: where, root and version."""
    found = []
    for site in sites:
        if _has_runtime(host, f"{site}/torch/lib"):
            found.append(_copy("torch wheel", f"{site}/torch/lib", ""))
        for name in host.names(site):
            if name.startswith("_rocm_sdk_core") and _has_runtime(host, f"{site}/{name}/lib"):
                version = host.read(f"{site}/{name}/.info/version")
                found.append(_copy("rocm wheels", f"{site}/{name}", version))
    found += _system(host)
    roots = {copy["root"] for copy in found}
    for folder in environ.get("LD_LIBRARY_PATH", "").split(":")[:64]:
        if folder.startswith("/") and folder not in roots and _has_runtime(host, folder):
            found.append(_copy("LD_LIBRARY_PATH", folder, ""))
    return found


def _system(host: Host) -> list[dict[str, str]]:
    """`/opt/rocm`, `/opt/rocm-7.2.0`, and the Core SDK's `/opt/rocm/core-10.1`; each once."""
    found: dict[str, dict[str, str]] = {}
    folders = ["/opt/rocm", *host.find("/opt/rocm-*"), *host.find("/opt/rocm/core-*")]
    for folder in folders[:32]:
        version = host.read(f"{folder}/.info/version")
        copy = _copy("system", folder, version)
        if not copy["version"] and not _has_runtime(host, f"{folder}/lib"):
            continue
        found.setdefault(copy["version"] or folder, copy)
    return list(found.values())


def _copy(where: str, root: str, version: str | Unknown) -> dict[str, str]:
    told = None if isinstance(version, Unknown) else re.match(r"\d[\w.]{0,39}", version.strip())
    return {"where": where, "root": root, "version": told[0] if told else ""}


def _has_runtime(host: Host, folder: str) -> bool:
    return any(name.startswith(ROCM_LIBRARY) for name in host.names(folder))


def kernel_files(host: Host, sites: Sequence[str]) -> dict[str, list[str]]:
    """By library, the targets for which kernel files lie beside torch or in the ROCm wheels."""
    roots = [f"{site}/torch" for site in sites]
    for site in sites:
        roots += [f"{site}/{n}" for n in host.names(site) if n.startswith("_rocm_sdk_libraries")]
    places = {
        "rocBLAS": "lib/rocblas/library",
        "hipBLASLt": "lib/hipblaslt/library",
        "MIOpen": "share/miopen/db",
    }
    found: dict[str, set[str]] = {}
    for root in roots:
        for library, place in places.items():
            names = host.names(f"{root}/{place}")
            if names:
                found.setdefault(library, set()).update(*(_GFX.findall(name) for name in names))
    return {library: sorted(targets) for library, targets in found.items()}


def expected(tables: Tables, torch_fact: Mapping[str, Any]) -> dict[str, Any] | Unknown:
    """The table's row for this torch: partners, Triton and targets, and how far it is sure."""
    release, rocm = str(torch_fact["release"]), str(torch_fact["rocm"] or "")
    for row in tables.torch.get("amd_wheel", ()):
        if row.get("torch") == release and row.get("rocm") == rocm:
            return {
                "channel": "AMD",
                "torchvision": row.get("torchvision", ""),
                "torchaudio": row.get("torchaudio", ""),
                "index": row.get("index", ""),
                "triton": "",
                "gfx": [],
                "source": row.get("source", ""),
                "grade": grade(row.get("source", "")).value,
            }
    for row in tables.torch.get("torch", ()):
        if row.get("version") == release:
            return {
                "channel": "upstream",
                "torchvision": row.get("torchvision", ""),
                "torchaudio": row.get("torchaudio", ""),
                "index": f"https://download.pytorch.org/whl/{row.get('recommended_index', '')}",
                "triton": row.get("triton", ""),
                "gfx": list(row.get("gfx", ())),
                "source": row.get("gfx_source", ""),
                "grade": grade(row.get("confidence", ""), row.get("gfx_source", "")).value,
            }
    return Unknown(f"torch {release} is not in the table of releases")


def library_rows(
    tables: Tables, packages: Mapping[str, str], targets: Sequence[Any]
) -> list[dict[str, Any]]:
    """What the table says of the installed libraries on these targets.

    Its statuses are those of gfx1100: they are told for RDNA 3 and RDNA 4, and for nothing else.
    """
    gfx = next((one for one in targets if isinstance(one, str) and one[:5] in _RDNA), None)
    if gfx is None:
        return []
    found = []
    for row in tables.libs.get("lib", ()):
        name = normal(str(row["name"]))
        if name in packages:
            note = str(row.get("gfx1100_note", ""))
            sure = grade(row.get("source", ""), note if gfx == "gfx1100" else "inferred")
            found.append(
                {
                    "name": name,
                    "version": packages[name],
                    "status": str(row.get("gfx1100", "unknown")),
                    "note": note,
                    "gfx": gfx,
                    "source": str(row.get("source", "")),
                    "grade": sure.value,
                }
            )
    return found


_RDNA = ("gfx11", "gfx12")
