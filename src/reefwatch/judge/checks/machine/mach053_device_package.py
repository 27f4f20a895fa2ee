"""MACH053: the kernels of AMD's own wheels, which are a package for each target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case, known, shown

_PRE = "amd-torch-device-"


def _case(channel: str, **packages: str) -> Case:
    named = {name.replace("_", "-"): version for name, version in packages.items()}
    version = "2.14.0+rocm10.1.0"
    return case(
        GPU, torch_rocm=True, packages={"torch": version, **named},
        torch={"version": version, "release": "2.14.0", "rocm": "10.1.0"},
        expected={"channel": channel, "index": "https://stable.repo.amd.com/rocm/whl-next/"},
    )  # fmt: skip


@check(
    "MACH053",
    Severity.ERROR,
    when=(AMD, "machine.torch_rocm"),
    needs=("machine.packages", "machine.torch", "machine.gpus", "machine.expected"),
    good=(
        _case("AMD", amd_torch_device_gfx1100="2.14.0+rocm10.1.0"),
        _case("AMD", amd_torch_device_all="2.14.0+rocm10.1.0"),
        _case("AMD", amd_torch_device_gfx110x="2.14.0+rocm10.1.0"),
        _case("upstream"),
    ),
    bad=(
        _case("AMD"),
        _case("AMD", amd_torch_device_gfx1201="2.14.0+rocm10.1.0"),
        _case("AMD", amd_torch_device_gfx1100="2.13.0+rocm10.0.0"),
    ),
)
def device_package(case: Case) -> Iterator[Finding]:
    """The kernel package of AMD's wheels is there for each card, of the release of torch.

    Why: in AMD's own channel torch without `[device-gfx1100]` carries no kernels for the card, and
    pip may call the extra satisfied while the package is missing: "invalid device function".
    Fix: `pip install --index-url <AMD's index> 'torch[device-gfx1100]==<version with tag>'`.
    Source: AMD's install page for 10.1.0; torch.toml, install.amd_check.
    """
    packages: Mapping[str, str] = case.value("machine.packages")
    torch: Mapping[str, Any] = case.value("machine.torch")
    row = case.value("machine.expected")
    have = {name[len(_PRE) :]: v for name, v in packages.items() if name.startswith(_PRE)}
    if row.get("channel") != "AMD" and not have:
        return
    evidence = (Evidence(f"{_PRE}*", have, source="dist-info"),)
    for gfx in sorted({g for gpu in shown(case) if (g := known(gpu["gfx"]))}):
        fix = f"pip install --force-reinstall --index-url {row.get('index', '')} "
        fix += f"'torch[device-{gfx}]=={torch['version']}'"
        fits = [name for name in have if _fits(name, gfx)]
        if not fits:
            yield Finding(
                f"{_PRE}{gfx} is not installed, beside torch {torch['version']} of AMD's channel",
                evidence,
                why="every use: torch has no kernels for the card",
                fix=fix,
            )
        elif all(have[name] != torch["version"] for name in fits):
            yield Finding(
                f"{_PRE}{fits[0]} {have[fits[0]]} beside torch {torch['version']}",
                evidence,
                claimed="one version for both",
                why="every use: kernels of another release",
                fix=fix,
            )


def _fits(name: str, gfx: str) -> bool:
    return name in ("all", gfx) or (name.split("-")[0].endswith("x") and name[:-1] == gfx[:-1])
