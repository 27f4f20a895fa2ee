"""Inventories of captured machines, against what was read from their trees by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from reefwatch.core.fact import Evidence, Unknown
from reefwatch.data import tables
from reefwatch.gather.machine import inventory
from reefwatch.gather.machine.replay import CapturedHost

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
