"""MACH001: HSA_OVERRIDE_GFX_VERSION."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, IGPU, case, known, shown, title

_NAME = "HSA_OVERRIDE_GFX_VERSION"
_FORM = re.compile(r"(\d{1,2})\.(\d{1,3})\.(\d{1,3})", re.ASCII)


def _set(value: str, *gpus: Any, gfx: list[str] | None = None, name: str = _NAME) -> Case:
    return case(*gpus, variables={name: {"value": value}}, expected={"gfx": gfx or []})


@check(
    "MACH001",
    Severity.ERROR,
    when=(AMD,),
    needs=("machine.variables", "machine.gpus"),
    good=(
        case(GPU, variables={}),
        _set("10.3.0", GPU | {"gfx": "gfx1032"}, gfx=["gfx1030"]),
        _set("10.3.0", GPU, IGPU, name=_NAME + "_2"),
    ),
    bad=(
        _set("11.0.0", GPU, gfx=["gfx1100"]),
        _set("gfx1100", GPU),
        _set("11.0.0", GPU | {"gfx": "gfx1151"}),
        _set("10.3.0", GPU | {"gfx": "gfx1201"}),
        _set("11.0.0", GPU | {"gfx": "gfx1101"}, IGPU),
        _set("11.0.0", GPU | {"gfx": "gfx1103"}, gfx=["gfx1103"]),
    ),
)
def override(case: Case) -> Iterator[Finding]:
    """The runtime is not told that the card is another one, unless it has to be.

    The true target is the kernel's (KFD's gfx_target_version), which the variable does not change.

    Why: code for another generation gives memory faults, hangs or wrong numbers; a variable left
    over from an older guide hides kernels that the wheel has for the card itself. The plain form
    is for every GPU of the machine, the one in the processor too.
    Fix: `unset HSA_OVERRIDE_GFX_VERSION`; take it out of ~/.bashrc and /etc/environment.
    Where the wheel has no kernels for the card: the nearest target of the same generation, for
    that node alone (HSA_OVERRIDE_GFX_VERSION_<node>).
    Source: ROCm/rocm-systems, libhsakmt topology; ROCm issue 2353; pytorch issue 103973.
    """
    variables = case.value("machine.variables")
    built = case.known("machine.expected", {}).get("gfx", ())
    for name in sorted(v for v in variables if v.startswith(_NAME)):
        value = variables[name]["value"]
        evidence = (Evidence(name, value, source="the environment"),)
        node = name.removeprefix(_NAME).lstrip("_")
        gpus = [g for g in shown(case) if not node or str(g["node"]) == node]
        for message, why in _faults(value, gpus, built, bool(node)):
            yield Finding(
                f"{name}={value[:40]}: {message}",
                evidence,
                claimed="code for the card that is there",
                why=why,
                fix=f"unset {name}",
            )


def _faults(value: str, gpus: Any, built: Any, one: bool) -> Iterator[tuple[str, str]]:
    form = _FORM.fullmatch(value.strip())
    if form is None:
        yield "not of the form 11.0.0", "the runtime refuses it, and shows no GPU at all"
        return
    major, minor, stepping = (int(part) for part in form.groups())
    told = f"gfx{major}{minor:x}{stepping:x}"
    targets = {g["gfx"]: g for g in gpus if isinstance(known(g["gfx"]), str)}
    for gfx, gpu in targets.items():
        if gfx == told:
            yield f"{title(gpu)} is {gfx} already", "not needed, and it holds for other GPUs too"
        elif gfx[:-2] != told[:-2] or (gfx[:-1] != told[:-1] and "115" in (gfx[3:6], told[3:6])):
            yield (
                f"{title(gpu)} is {gfx}, of another generation than {told}",
                "code of another generation faults, hangs, or computes wrong numbers",
            )
        elif gfx in built:
            yield f"this torch has kernels for {gfx} itself", "the card's own kernels are not used"
    if len(targets) > 1 and not one:
        yield (
            f"it holds for all of {', '.join(sorted(targets))}",
            "one value cannot be right for GPUs of several targets",
        )
