"""MACH056: extensions that were built for CUDA."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import case

_CUDA = ("libcudart.so", "libtorch_cuda.so", "libc10_cuda.so", "libcublas.so", "libcuda.so")
_HIP = ("libamdhip64.so", "libtorch_hip.so", "libc10_hip.so", "librocblas.so")
_FILE = "/venv/lib/python3.12/site-packages/flash_attn_2_cuda.cpython-312.so"


def _case(rocm: bool, *needed: str) -> Case:
    return case(torch_rocm=rocm, has_torch=True, torch={"kind": "rocm" if rocm else "cuda"},
                binaries={_FILE: {"needed": list(needed), "execstack": False}})  # fmt: skip


@check(
    "MACH056",
    Severity.ERROR,
    when=("machine.has_torch",),
    needs=("machine.binaries", "machine.torch"),
    good=(_case(True, "libtorch_hip.so", "libc10.so"), _case(False, "libcudart.so.12")),
    bad=(_case(True, "libtorch_cuda.so", "libcudart.so.12"), _case(False, "libamdhip64.so.6")),
)
def extensions(case: Case) -> Iterator[Finding]:
    """Compiled extensions ask for the libraries that this torch has.

    Read from the files themselves: a package's name does not tell which it was built for.

    Why: an extension from PyPI is the CUDA build: its import fails for lack of libcudart or
    libtorch_cuda, or it falls back in silence.
    Fix: uninstall it, and build it against this torch (`pip install --no-build-isolation`), or use
    what torch has itself (scaled_dot_product_attention).
    Source: failures of CUDA extensions in ROCm environments (public reports); libs.toml.
    """
    kind = case.value("machine.torch")["kind"]
    if kind not in ("rocm", "cuda"):
        return
    foreign, name = (_CUDA, "CUDA") if kind == "rocm" else (_HIP, "ROCm")
    for path, told in case.value("machine.binaries").items():
        hit = [lib for lib in told.get("needed", ()) if lib.startswith(foreign)]
        file = path.rpartition("/")[2]
        if hit and not file.startswith(
            "libbitsandbytes"
        ):  # brings one library for each, on purpose
            package = path.partition("-packages/")[2].split("/")[0].split(".")[0]
            yield Finding(
                f"{file} was built for {name}: it asks for {hit[0]}",
                (Evidence("DT_NEEDED", hit, source=path),),
                claimed=f"libraries of the {kind} build of torch",
                why=f"every use of {package}: its import fails, or it is not used",
                fix=f"pip uninstall {package.replace('_2_cuda', '').replace('_', '-')}; then build "
                "it with --no-build-isolation",
            )
