"""MACH073: the library of bitsandbytes for this ROCm."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import case

_SITE = "/venv/lib/python3.12/site-packages/bitsandbytes/"


def _case(rocm: str, *files: str, have: bool = True, hip: str = "") -> Case:
    packages = {"torch": "2.9.1+rocm" + rocm} | ({"bitsandbytes": "0.49.0"} if have else {})
    binaries = {_SITE + name: {"needed": [], "execstack": False} for name in files}
    return case(torch_rocm=True, torch={"rocm": rocm, "hip": hip or rocm + ".1"}, packages=packages,
                binaries=binaries)  # fmt: skip


@check(
    "MACH073",
    Severity.ERROR,
    when=("machine.torch_rocm",),
    needs=("machine.packages", "machine.torch", "machine.binaries"),
    good=(
        _case("7.2", "libbitsandbytes_rocm72.so"),
        _case("10.0.0", "libbitsandbytes_rocm715.so", hip="7.15.26333"),
        _case("7.2", have=False),
    ),
    bad=(
        _case("7.14", "libbitsandbytes_rocm72.so"),
        _case("10.1", "libbitsandbytes_rocm715.so", hip="7.16.26385"),
        _case("7.2", "libbitsandbytes_cuda128.so"),
    ),
)
def bitsandbytes(case: Case) -> Iterator[Finding]:
    """Bitsandbytes, where it is installed, has a library for the ROCm of torch.

    Why: it chooses its library by torch's HIP number (7.15 for ROCm 10.0); where that is missing,
    8-bit optimisers and 4-bit loading fail, after a warning that only the processor's library was
    found.
    Fix: a bitsandbytes whose wheel has this ROCm, a torch of a ROCm that it has, or a build from
    source: `cmake -DCOMPUTE_BACKEND=hip`.
    Source: bitsandbytes installation.mdx; ROCm/bitsandbytes issue 82.
    """
    packages = case.value("machine.packages")
    if "bitsandbytes" not in packages:
        return
    names = [path.rpartition("/")[2] for path in case.value("machine.binaries")]
    have = sorted(m[1] for name in names if (m := re.search(r"bitsandbytes_rocm(\d+)", name)))
    torch = case.value("machine.torch")
    # it asks for HIP's number, which is not ROCm's from 10.0 on
    rocm = str(torch.get("hip") or torch.get("rocm") or "")
    wanted = "".join(rocm.split(".")[:2])
    if wanted and wanted not in have:
        yield Finding(
            f"bitsandbytes {packages['bitsandbytes']} has libraries for ROCm "
            f"{', '.join(have) or '(none)'}, and torch is of HIP {rocm}",
            (Evidence("libraries", names, source="file names"),),
            claimed=f"libbitsandbytes_rocm{wanted}.so",
            why="fine-tuning with 8-bit optimisers or 4-bit weights",
            fix="pip install -U bitsandbytes; else build it: cmake -DCOMPUTE_BACKEND=hip",
        )
