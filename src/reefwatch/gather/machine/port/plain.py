"""Scripts of the shell, containers, builds and lists of requirements, line by line.

Lines that end in a backslash are one line; comments are taken out; what stands in an `if` that asks
for the tool, or for ROCm, is guarded.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.gather.machine.port.places import ARCH, MODULES, Place, index, once, package

_Rules = tuple[tuple[str, re.Pattern[str]], ...]
_SHELL: _Rules = (
    ("smi", re.compile(r"(?:^|[\s;|&(`\"'])nvidia-smi\b")),
    ("container", re.compile(
        r"^\s*FROM\s+(?:--\S+\s+)?(?:docker\.io/)?(?:nvidia/cuda|nvcr\.io/)\S*|\bnvcr\.io/\S+|\bnvidia/cuda:\S+"
        r"|\b(?:docker|podman|nerdctl)\b.*--gpus\b|\bruntime:\s*nvidia\b|\bdriver:\s*nvidia\b|\bnvidia\.com/gpu\b")),
    ("tf32", re.compile(r"\bNVIDIA_TF32_OVERRIDE\b|\bTORCH_ALLOW_TF32\w*")),
    ("capability", re.compile(r"\bTORCH_CUDA_ARCH_LIST\b")),
    ("extension", re.compile(
        r"\bnvcc\b|-gencode\b|--use_fast_math\b|\bCUDA_(?:HOME|PATH|ROOT)\b|\bCUDACXX\b")),
)  # fmt: skip
_CMAKE: _Rules = (
    ("extension", re.compile(
        r"\benable_language\s*\(\s*CUDA\b|\bproject\s*\([^)]*\bCUDA\b|\bfind_package\s*\(\s*CUDA\w*"
        r"|\bCUDA_TOOLKIT_ROOT_DIR\b|\bCUDAToolkit_ROOT\b|\bENV\{CUDA_\w+\}|\bCMAKE_CUDA_FLAGS\b|--use_fast_math\b|--expt-\w+|-gencode\b")),
    ("capability", re.compile(r"\bCMAKE_CUDA_ARCHITECTURES\b|\bCUDA_ARCH_LIST\b")),
)  # fmt: skip
_LOST: _Rules = (
    ("cuda version", re.compile(r"\btorch\.version\.cuda\b")),
    (
        "import",
        re.compile(rf"^\s*(?:from|import)\s+(?:{'|'.join(map(re.escape, sorted(MODULES)))})\b"),
    ),
    ("tf32", re.compile(r"\ballow_tf32\s*=\s*True|\bset_float32_matmul_precision\b")),
    ("extension", re.compile(r"\bCUDAExtension\b|\bextra_cuda_cflags\b")),
    ("smi", re.compile(r"\bnvidia-smi\b")),
    ("capability", re.compile(r"\bget_device_capability\b")),
    ("container", re.compile(r"^\s*FROM\s+(?:nvidia/cuda|nvcr\.io/)")),
)  # fmt: skip
_INSTALL = re.compile(r"\b(?:pip3?|uv|conda|mamba|poetry|pdm)\s+(?:pip\s+)?(?:install|add)\s+(.*)")
_ROCM = re.compile(r"rocm|\bhip\b|\bamd", re.IGNORECASE)
_ASKS = re.compile(r"\b(?:command -v|which|type|hash)\s+\S*nvidia-smi|-x\s+\S*nvidia-smi")


def shell(text: str) -> Iterator[Place]:
    """A script, a Dockerfile, a workflow or a Makefile."""
    yield from once(_lines(text, _SHELL, _guards(text, r"\s*if\b", r"\s*fi\b", _either)))


def cmake(text: str) -> Iterator[Place]:
    """A CMakeLists.txt or a file of CMake."""
    guards = _guards(
        text, r"(?i)\s*if\s*\(", r"(?i)\s*endif\b", lambda line: bool(_ROCM.search(line))
    )
    yield from once(_lines(text, _CMAKE, guards))


def lost(text: str) -> Iterator[Place]:
    """What is named .py and is no Python that this interpreter reads: by the looks of its lines."""
    yield from once(_lines(text, _LOST, frozenset()))


def requirements(text: str, name: str) -> Iterator[Place]:
    """A list of requirements; of a pyproject.toml what is not optional."""
    told = _toml(text) if name == "pyproject.toml" else None
    wanted = None if told is None else _required(told)
    for number, line in _joined(text):
        if index(line):
            yield Place("requirement", number, index(line))
        elif wanted is None:
            found = package(re.sub(r"^[\s-]+(?=[\w\"'])", "", line).split(" --")[0])
            if found:
                yield Place("requirement", number, found)
        else:
            bare = [one for one in wanted if one and one in line]
            if bare:
                yield Place("requirement", number, package(bare[0]))


def _toml(text: str) -> Mapping[str, Any] | None:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        told: Mapping[str, Any] = tomllib.loads(text)
    except (ValueError, RecursionError):
        return None
    return told


def _required(told: Mapping[str, Any]) -> list[str]:
    """The requirements for CUDA alone that are no extras."""
    project, build = told.get("project"), told.get("build-system")
    tool = told.get("tool")
    poetry = tool.get("poetry") if isinstance(tool, dict) else None
    found: list[Any] = []
    for table, key in ((project, "dependencies"), (build, "requires")):
        rows = table.get(key) if isinstance(table, dict) else None
        found += rows if isinstance(rows, list) else []
    rows = poetry.get("dependencies") if isinstance(poetry, dict) else None
    if isinstance(rows, dict):
        found += [
            name
            for name, row in rows.items()
            if not (isinstance(row, dict) and row.get("optional"))
        ]
    return [one for one in found if isinstance(one, str) and package(one)]


def _lines(text: str, rules: _Rules, guards: frozenset[int]) -> Iterator[Place]:
    for number, line in _joined(text):
        guarded = number in guards or bool(_ASKS.search(line))
        for kind, pattern in rules:
            found = pattern.search(line)
            if found:
                yield Place(kind, number, found[0].strip(" ;|&(`\"'")[:80], guarded)
        arch = ARCH.search(line)
        if arch:
            yield Place("capability", number, arch[0], guarded)
        if index(line):
            yield Place("requirement", number, index(line), guarded)
        install = _INSTALL.search(line)
        for word in install[1].split() if install else ():
            if package(word):
                yield Place("requirement", number, package(word), guarded)


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """(number of its first line, line without comment), continued lines as one."""
    started, held = 0, ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.sub(r"(?:^|(?<=\s))#.*", "", raw)
        started = started or number
        if line.endswith("\\"):
            held += line[:-1] + " "
            continue
        yield started, held + line
        started, held = 0, ""
    if held:
        yield started, held


def _either(line: str) -> bool:
    return bool(_ASKS.search(line) or _ROCM.search(line))


def _guards(text: str, opens: str, closes: str, asks: Any) -> frozenset[int]:
    """The numbers of the lines inside of an `if` that asks."""
    stack: list[bool] = []
    inside = set()
    for number, line in _joined(text):
        if re.match(opens, line):
            stack.append(bool(asks(line)))
            if re.search(r";\s*fi\b", line):
                stack.pop()
                if asks(line):
                    inside.add(number)
        elif re.match(closes, line) and stack:
            stack.pop()
        if any(stack):
            inside.add(number)
    return frozenset(inside)
