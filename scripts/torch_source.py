"""Bring a torch that fits this machine into a virtual environment, when there is none.

Run by the Makefile with any Python from 3.10 on; needs nothing but the standard library.
A torch that the environment can already import is used and never replaced.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

WHEELS = "https://download.pytorch.org/whl"
ROCM_OF_TORCH = {"2.11": "rocm7.2", "2.12": "rocm7.2", "2.13": "rocm7.2", "2.14": "rocm7.14"}
"""The upstream ROCm index of each release (PyTorch's previous-versions page, RELEASE.md)."""

QUICK = ("--retries", "0", "--timeout", "5")
"""Asking an index that is out of reach costs seconds, not minutes."""


@dataclass(frozen=True)
class Machine:
    """What decides which build of torch fits."""

    amd: bool = False
    nvidia: bool = False


@dataclass(frozen=True)
class Source:
    """One place to take torch from. Without an index it is whatever pip is set up to use."""

    index: str | None
    build: str
    tag: str = ""
    """What the local part of the version must begin with: `cpu` for 2.13.0+cpu."""

    @property
    def where(self) -> str:
        return self.index or "pip's own index"

    def ask(self, python: str) -> list[str]:
        """The command that says which versions there are."""
        return [python, "-m", "pip", "index", "versions", "torch", *self._index(), *QUICK]

    def install(self, python: str, spec: str) -> list[str]:
        return [python, "-m", "pip", "install", spec, *self._index()]

    def _index(self) -> list[str]:
        # --index-url, not --extra-index-url: with both pip may take the larger version from PyPI,
        # which is a CUDA build.
        return ["--index-url", self.index] if self.index else []


def read_machine(root: Path = Path("/"), path: str | None = None) -> Machine:
    """Look at device files only: no driver tool is run."""
    vendors = [_text(file) for file in root.glob("sys/class/drm/card*/device/vendor")]
    return Machine(
        amd=(root / "dev/kfd").exists() or "0x1002" in vendors,
        nvidia=(root / "proc/driver/nvidia").exists()
        or shutil.which("nvidia-smi", path=path) is not None,
    )


def sources(machine: Machine, spec: str, index: str = "") -> list[Source]:
    """Where to look for `spec`, best first. `index` (TORCH_INDEX) comes before all defaults.

    A machine whose pip already knows a place with the right build (a mirror, a folder of wheels)
    is asked first. The last one is taken without asking.
    """
    cpu = [Source(None, "the CPU build", "cpu"), Source(f"{WHEELS}/cpu", "the CPU build")]
    rocm = [
        Source(None, "the ROCm build", "rocm"),
        Source(f"{WHEELS}/{rocm_of(spec)}", "the ROCm build"),
    ]
    last = Source(None, "whichever build is there (PyPI's is for CUDA, several GB)")
    if index:
        return [Source(index, "the build at TORCH_INDEX"), last]
    # Many processors carry a small AMD GPU, so an NVIDIA card beside one is the card that is meant.
    if machine.nvidia:
        return [Source(None, "the CUDA build")]
    # PyPI's Linux wheel is the CUDA build, several GB: the last resort on a machine without a GPU.
    return [*rocm, *cpu, last] if machine.amd else [*cpu, last]


def rocm_of(spec: str) -> str:
    """The ROCm index of the release that `spec` names; the newest known for any other."""
    release = re.search(r"(\d+\.\d+)", spec)
    newest = list(ROCM_OF_TORCH.values())[-1]
    return ROCM_OF_TORCH.get(release[1], newest) if release else newest


def pick(answer: str, spec: str, tag: str = "") -> str | None:
    """What to ask pip for, given the answer of `pip index versions`; None when it is not there.

    The local part (2.13.0+cpu) is pinned when the build matters, for pip takes any build of 2.13.0.
    Other than `torch==X` is left to pip, as long as there is any version.
    """
    line = re.search(r"^Available versions: (.*)$", answer, re.MULTILINE)
    versions = [version.strip() for version in line[1].split(",")] if line else []
    exact = re.fullmatch(r"torch\s*==\s*([\w.!]+)", spec.strip())
    fitting = [
        version
        for version in versions
        if (version.partition("+")[0] == exact[1] if exact else True)
        and version.partition("+")[2].startswith(tag)
    ]
    if not fitting:
        return None
    return f"torch=={fitting[0]}" if exact and tag else spec


def has_torch(python: str) -> bool:
    """Whether `python` finds a torch; it is not imported."""
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    return subprocess.run([python, "-c", code], check=False).returncode == 0


def choose(found: list[Source], python: str, spec: str) -> tuple[Source, str, list[str]]:
    """(source, what to ask it for, a remark for each index passed over)."""
    remarks: list[str] = []
    for source in found[:-1]:
        asked = subprocess.run(source.ask(python), capture_output=True, text=True, check=False)
        wanted = pick(asked.stdout, spec, source.tag)
        if wanted is not None:
            return source, wanted, remarks
        if source.index:
            remarks.append(f"{source.index} has no {spec} for this machine, or is out of reach")
    return found[-1], spec, remarks


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--python", default=sys.executable, help="of the environment to fill")
    parser.add_argument("--spec", default="torch", help="what pip is asked for")
    parser.add_argument("--index", default="", help="where to look first")
    parser.add_argument("--dry-run", action="store_true", help="print the command, run nothing")
    chosen = parser.parse_args(argv)
    if has_torch(chosen.python):
        return 0
    spec: str = chosen.spec
    found = sources(read_machine(), spec, chosen.index)
    source, wanted, remarks = choose(found, chosen.python, spec)
    for remark in remarks:
        print(f"torch: {remark}", flush=True)
    print(f"torch: {wanted}, {source.build}, from {source.where}", flush=True)
    command = source.install(chosen.python, wanted)
    if not sys.stdout.isatty():
        command.append("-qq")
    if chosen.dry_run:
        print(" ".join(command))
        return 0
    if subprocess.run(command, check=False).returncode:
        print(
            f"torch: {spec} could not be installed. TORCH_SPEC and TORCH_INDEX say where it comes "
            "from; see docs/install.md",
            file=sys.stderr,
        )
        return 1
    return 0


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
