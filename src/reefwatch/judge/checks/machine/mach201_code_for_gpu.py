"""MACH201: GPU code for the cards that are there."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case, Event
from reefwatch.data import targets
from reefwatch.judge import carried


def _file(path: str, names: tuple[str, ...], package: str = "p", unknown: str = "") -> Event:
    data = {
        "path": path,
        "package": package,
        "kinds": ("bundle",),
        "parts": 2,
        "targets": dict.fromkeys(names, 2),
        "unknown": (unknown,) if unknown else (),
    }
    return Event("codes.file", data, id=path)


def _case(*rows: Event, gpus: tuple[str, ...] = ("gfx1100",)) -> Case:
    scan = {"root": "w", "kind": "wheel", "looked": 2, "with_code": len(rows), "unread": []}
    return Case.of(*rows, codes__gpus=list(gpus), codes__scan=scan, codes__amd=True)


def _doubt(case: Case) -> str:
    dark = carried.unread(case)
    for gpu in case.value("codes.gpus"):
        for row in carried.files(case):
            if carried.carries(row, gpu) is None:
                dark.append(f"{row['path']}: whether its code loads depends on xnack or sramecc")
    return carried.first(dark)


@check(
    "MACH201",
    Severity.ERROR,
    when=("codes.amd",),
    needs=("codes.gpus", "codes.scan"),
    good=(
        _case(_file("a.so", ("gfx90a", "gfx1100"))),
        _case(_file("a.so", ("gfx11-generic",))),
        _case(_file("a.so", ("spirv",))),
        _case(_file("a_gfx942.so", ("gfx942",)), _file("a_gfx1100.so", ("gfx1100",))),
        _case(_file("a.so", ("gfx90a:xnack-",)), gpus=("gfx90a:sramecc+:xnack-",)),
    ),
    bad=(
        _case(_file("a.so", ("gfx90a", "gfx942"))),
        _case(_file("a.so", ("gfx1100",)), gpus=("gfx1100", "gfx1036")),
        _case(_file("a_gfx942.so", ("gfx942",)), _file("b.so", ("gfx1100",), "q")),
        _case(_file("a.so", ("gfx90a:xnack+",)), gpus=("gfx90a:xnack-",)),
        _case(_file("a.so", ("gfx10-3-generic",))),
    ),
    covers=carried.covers,
    doubt=_doubt,
)
def code_for_gpu(case: Case) -> Iterator[Finding]:
    """Each file with code for AMD GPUs has code for the GPUs that are there.

    Why: a kernel that was not built for a card cannot run on it: "invalid device function", "no
    kernel image is available", or a crash while the library is loaded. The targets stand in the
    file, so this is known before anything runs. Code for one card rarely runs on its neighbour.
    Fix: install the build for the card (`reefwatch plan` names it), or compile it with
    PYTORCH_ROCM_ARCH or GPU_ARCHS set to the card's target.
    Limits: `nearest` targets are of the same generation. HSA_OVERRIDE_GFX_VERSION makes the runtime
    load them; AMD does not support that, and wrong results are possible.
    Source: LLVM, docs/AMDGPUUsage.rst (EF_AMDGPU_MACH, target ids), docs/ClangOffloadBundler.rst.
    """
    for gpu in case.value("codes.gpus"):
        for rows in carried.lacking(case, gpu):
            first = rows[0]
            names = first["targets"]
            said = Evidence("codes.file", [dict(row) for row in rows], source="bytes of the file")
            fix = f"a build for {gpu}; `reefwatch plan` names one"
            near = targets.nearest(gpu, names)
            if near:
                fix += f"; nearest it carries is {near} (as a last resort, and not supported by "
                fix += f"AMD: HSA_OVERRIDE_GFX_VERSION={targets.version(near)})"
            more = len(rows) - 1
            who = f"{first['path']} carries"
            if more:
                several = "file" if more == 1 else "files"
                who = f"{first['path']} and {more} more {several} of {first['package']} carry"
            yield Finding(
                f"{who} code for {carried.listed(names)} and none for {gpu}",
                (said, case.evidence("codes.gpus")),
                why=f"kernels in it fail on {gpu} with invalid device function",
                fix=fix,
            )
