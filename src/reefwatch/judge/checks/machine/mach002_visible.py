"""MACH002: the variables that hide devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case

_HIP = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
_SECOND = GPU | {"index": 1, "node": 2, "slot": "0000:06:00.0"}


def _set(shown: list[int], *gpus: Any, **values: str) -> Case:
    return case(*gpus, variables={k: {"value": v} for k, v in values.items()}, shown=shown)


@check(
    "MACH002",
    Severity.ERROR,
    when=(AMD,),
    needs=("machine.variables", "machine.gpus", "machine.shown"),
    good=(
        _set([0], GPU),
        _set([1], GPU, _SECOND, ROCR_VISIBLE_DEVICES="1"),
        _set([1], GPU, _SECOND, ROCR_VISIBLE_DEVICES="1", HIP_VISIBLE_DEVICES="0"),
    ),
    bad=(
        _set([], GPU, HIP_VISIBLE_DEVICES="-1"),
        _set([], GPU, _SECOND, ROCR_VISIBLE_DEVICES="1", HIP_VISIBLE_DEVICES="1"),
        _set([0], GPU, _SECOND, HIP_VISIBLE_DEVICES="0", CUDA_VISIBLE_DEVICES="1"),
        _set([0], GPU, HIP_VISIBLE_DEVICES="0,3"),
    ),
)
def visible(case: Case) -> Iterator[Finding]:
    """The variables that hide GPUs leave the ones that are meant.

    Why: HIP_VISIBLE_DEVICES counts among what ROCR_VISIBLE_DEVICES left over: after ROCR=1 only
    index 0 exists. An entry that does not exist ends the list there, without a message, and torch
    says "no HIP GPUs are available" or computes on another card.
    Fix: set one of them only, ROCR_VISIBLE_DEVICES, by UUID (`rocminfo | grep -i uuid`, or the
    unique_id that `reefwatch doctor --json` lists).
    Source: ROCm/rocm-systems, projects/hip/docs/reference/env_variables; SwarmUI issue 566.
    """
    variables: Mapping[str, Any] = case.value("machine.variables")
    given = {n: variables[n]["value"] for n in ("ROCR_VISIBLE_DEVICES", *_HIP) if n in variables}
    devices = [gpu for gpu in case.value("machine.gpus") if gpu["index"] is not None]
    if not given or not devices:
        return
    evidence = (Evidence("variables", given, source="the environment"),)
    said = ", ".join(f"{name}={value[:40]!r}" for name, value in given.items())
    left = len(case.value("machine.shown"))
    asked = _asked(given)
    if not left:
        yield Finding(
            f"{said} hides all {len(devices)} GPUs",
            evidence,
            why="torch finds no GPU, and computes on the processor or stops",
            fix="unset " + " ".join(given),
        )
    elif left < asked:
        yield Finding(
            f"{said} asks for {asked} GPUs, and {left} of {len(devices)} are left",
            evidence,
            why="an entry that does not exist ends the list, without a message",
            fix="ROCR_VISIBLE_DEVICES alone, with indices below " + str(len(devices)),
        )
    hip = {given[name].strip() for name in _HIP[:2] if name in given}
    if len(hip) > 1:
        yield Finding(
            f"{said}: two values for one thing",
            evidence,
            why="HIP takes HIP_VISIBLE_DEVICES, other tools CUDA_VISIBLE_DEVICES",
            fix="unset HIP_VISIBLE_DEVICES",
        )


def _asked(given: Mapping[str, str]) -> int:
    """How many devices the last of the lists names."""
    name = next((n for n in _HIP[:2] if n in given), "ROCR_VISIBLE_DEVICES")
    return len([part for part in given.get(name, "").split(",") if part.strip()])
