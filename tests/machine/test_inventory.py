"""Inventories of captured machines, against what was read from their trees by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from reefwatch.api import machine
from reefwatch.core.fact import Evidence, Unknown
from reefwatch.core.finding import Verdict
from reefwatch.data import tables
from reefwatch.gather.machine import inventory
from reefwatch.gather.machine.replay import CapturedHost
from tests.machine import synthetic

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DATA = Path(__file__).parents[1] / "data"
TREES = sorted(path.name for path in (DATA / "sysfs").iterdir())


def same(found: Any, wanted: Any, where: str) -> None:
    """`unknown` is a part of the reason, "null" is None; all else must be equal."""
    if wanted == "null":
        assert found is None, where
    elif isinstance(wanted, dict) and "unknown" in wanted:
        assert set(found) == {"unknown"} and wanted["unknown"] in found["unknown"], (where, found)
    elif isinstance(wanted, dict) and "candidates" in wanted:
        assert found["candidates"] == wanted["candidates"], where
        assert found["unknown"] and found.get("likely") == wanted.get("likely"), where
    elif isinstance(wanted, dict):
        assert set(found) == set(wanted), (where, found)
        for key in wanted:
            part = wanted[key]
            if isinstance(part, str) and where.endswith("views_missing"):
                assert part in found[key]
            else:
                same(found[key], part, f"{where}.{key}")
    else:
        assert found == wanted and type(found) is type(wanted), (where, found)


def test_every_tree_has_an_expected_inventory() -> None:
    assert sorted(p.stem for p in (DATA / "machine/expected").glob("*.toml")) == TREES


@pytest.mark.parametrize("tree", TREES)
def test_a_tree_gives_its_inventory(tree: str) -> None:
    wanted = tomllib.loads((DATA / "machine/expected" / f"{tree}.toml").read_text())
    facts = inventory.take(CapturedHost(DATA / "sysfs" / tree), tables.load())
    for name in ("kind", "cards", "shown", "hidden_nodes", "kernel"):
        fact = facts[f"machine.{name}"]
        same({"unknown": fact.reason} if isinstance(fact, Unknown) else fact.value,
             wanted[name], name)  # fmt: skip
    gpus = facts["machine.gpus"]
    assert isinstance(gpus, Evidence)
    assert len(gpus.value) == len(wanted["gpu"])  # type: ignore[arg-type]
    for found, row in zip(gpus.value, wanted["gpu"], strict=True):  # type: ignore[arg-type]
        assert set(found) == set(row)
        for key, value in row.items():
            same(found[key], value, f"{tree} {found['slot']} {key}")


def test_every_synthetic_machine_has_an_inventory() -> None:
    written = sorted(path.stem for path in (DATA / "machine/synthetic").glob("*.toml"))
    assert written == sorted(synthetic.MACHINES)


@pytest.mark.parametrize("name", sorted(synthetic.MACHINES))
def test_a_machine_that_nobody_captured_gives_its_inventory(name: str, tmp_path: Path) -> None:
    wanted = tomllib.loads((DATA / "machine/synthetic" / f"{name}.toml").read_text())
    facts = inventory.take(CapturedHost(synthetic.MACHINES[name]().write(tmp_path / name)),
                           tables.load())  # fmt: skip
    rows = wanted.pop("gpu", [])
    for key, value in wanted.items():
        fact = facts[f"machine.{key}"]
        found: Any = {"unknown": fact.reason} if isinstance(fact, Unknown) else fact.value
        if key == "hidden_nodes":
            found = [row["node"] for row in found]
        same(found, value, f"{name} {key}")
    gpus = facts["machine.gpus"]
    if isinstance(gpus, Unknown):
        assert not rows
        return
    assert len(gpus.value) == len(rows)  # type: ignore[arg-type]
    for gpu, row in zip(gpus.value, rows, strict=True):  # type: ignore[arg-type]
        for key, value in row.items():
            same(gpu[key], value, f"{name} {gpu['slot']} {key}")  # type: ignore[index]


JUDGED = {
    "vfio_beside_a_card": set(),
    "amd_and_nvidia": set(),
    "container_without_kfd": {"MACH010"},
    "polaris": {"MACH040", "MACH044"},
    "sriov_host": {"MACH020"},
    "sriov_guest": set(),
    "strix_halo": {"MACH022"},
    "two_navi_igpu": {"MACH031"},
    "kfd_without_drm": {"MACH011"},
    "mi300x_cpx_nps4": set(),
    "wsl2": set(),
    "raven_apu": set(),
}


@pytest.mark.parametrize("name", sorted(synthetic.MACHINES))
def test_what_is_wrong_with_it_is_told_and_nothing_else(name: str, tmp_path: Path) -> None:
    report = machine.doctor(root=synthetic.MACHINES[name]().write(tmp_path / name))
    bad = (Verdict.BROKEN, Verdict.ERRORED)
    assert {one.code for one in report.outcomes if one.verdict in bad} == JUDGED[name]
