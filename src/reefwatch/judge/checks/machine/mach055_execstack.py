"""MACH055: libraries that want an executable stack."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import case, version

_LIB = "/venv/lib/python3.12/site-packages/torch/lib/libamdhip64.so"


def _case(glibc: str, execstack: bool) -> Case:
    return case(
        glibc=glibc, torch_rocm=True, binaries={_LIB: {"execstack": execstack, "needed": []}}
    )


@check(
    "MACH055",
    Severity.ERROR,
    when=("machine.torch_rocm",),
    needs=("machine.glibc", "machine.binaries"),
    good=(_case("glibc 2.39", True), _case("glibc 2.41", False)),
    bad=(_case("glibc 2.41", True),),
)
def execstack(case: Case) -> Iterator[Finding]:
    """No ROCm library asks for an executable stack where glibc refuses it.

    Why: from glibc 2.41 on `dlopen` refuses such libraries: `import torch` fails with "cannot
    enable executable stack". Old ROCm wheels carry them.
    Fix: a newer torch; else `patchelf --clear-execstack` on the file, or
    `export GLIBC_TUNABLES=glibc.rtld.execstack=2`.
    Source: glibc 2.41 release notes; easydiffusion issue 1921.
    """
    if version(case.value("machine.glibc").rpartition(" ")[2]) < (2, 41):
        return
    for path, told in case.value("machine.binaries").items():
        if told.get("execstack"):
            yield Finding(
                f"{path.rpartition('/')[2]} asks for an executable stack, and "
                f"{case.value('machine.glibc')} refuses it",
                (Evidence("PT_GNU_STACK", "RWE", source=path),),
                why="every use: import torch fails",
                fix=f"patchelf --clear-execstack {path}; or a newer torch",
            )
