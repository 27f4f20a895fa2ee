"""The kept survey programs: right results, no report, in every mode of running."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from reefwatch import isa

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "kernels"))
import cases  # noqa: E402

PROGRAMS = sorted((ROOT / "data" / "kernels").glob("*.amdgcn"))
SMALL = [path for path in PROGRAMS if path.stat().st_size < 20_000]


def launch(path: Path, seed: int, **how):
    name, target, _, _ = path.name.split(".")
    text = path.read_text()
    case = cases.CASES[name](np.random.default_rng(seed))
    shared = int(re.match(r"; shared: (\d+)", text)[1])
    before = [a.copy() for a in case.args if isinstance(a, np.ndarray)]
    result = isa.run(text, target, case.grid, case.args, shared=shared, **how)
    assert result.ran, (result.refused, result.stopped)
    arrays = [a for a in case.args if isinstance(a, np.ndarray)]
    assert all(np.array_equal(a, b) for a, b in zip(before, arrays, strict=True))
    return case, result, target


def test_there_are_programs_of_every_generation() -> None:
    targets = {path.name.split(".")[1] for path in PROGRAMS}
    assert targets == {"gfx1100", "gfx1201", "gfx942"} and len(PROGRAMS) >= 30


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_agrees_with_numpy_and_nothing_is_reported(path: Path) -> None:
    case, result, target = launch(path, seed=5)
    assert cases.worst(case, result.buffers[case.out], target) <= 1
    assert result.reports == []


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
def test_another_wave_order_gives_the_same_bits(path: Path) -> None:
    if path.name.startswith(("histogram", "gather")):
        pytest.skip("waves of a workgroup never meet in it")
    _, one, _ = launch(path, seed=6, observers=())
    _, two, _ = launch(path, seed=6, schedule=3)
    assert two.reports == []
    for left, right in zip(one.buffers, two.buffers, strict=True):
        assert np.array_equal(left.view(np.uint8), right.view(np.uint8))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_scan_finds_no_fault(path: Path) -> None:
    text = path.read_text()
    target = path.name.split(".")[1]
    made = isa.scan(text, target, shared=int(re.match(r"; shared: (\d+)", text)[1]))
    assert {found.kind for found in made.found} <= {"spill"}
    assert made.unscanned == () and made.facts["waves per SIMD"] >= 1
    if path.name.startswith("matmul"):
        assert made.matrix


def test_a_wrong_instruction_gives_a_wrong_result() -> None:
    path = next(p for p in PROGRAMS if p.name.startswith("softmax_f32.gfx1100"))
    text = path.read_text()
    case = cases.CASES["softmax_f32"](np.random.default_rng(5))
    bad = text.replace("v_sub_f32_e32", "v_add_f32_e32", 1)
    assert bad != text
    result = isa.run(bad, "gfx1100", case.grid, case.args, shared=64)
    assert cases.worst(case, result.buffers[case.out]) > 1
