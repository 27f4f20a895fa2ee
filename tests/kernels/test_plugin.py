"""`pytest --reefwatch-target`: an existing suite on the virtual GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = """
import pytest, torch, triton
import triton.language as tl

@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x + tl.load(y_ptr + i, mask=i < n), mask=i < n)

@pytest.mark.skipif(not torch.cuda.is_available(), reason="no card")
@pytest.mark.parametrize("n", [10, 100])
def test_add(n):
    x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
    out = torch.empty_like(x)
    add[(1,)](x, y, out, n{more}, BLOCK=128)
    assert torch.equal(out, x + y)
"""


def run(folder: Path, more: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_suite.py").write_text(SUITE.replace("{more}", more))
    plugin = ("-p", "reefwatch.pytest_plugin", "-p", "no:cacheprovider", "-q")
    path = os.pathsep.join(sys.path)
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, *options, str(folder)],
        env={**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def test_without_the_option_nothing_is_done(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text(
        "import sys\ndef test_plain():\n    assert 'reefwatch.api.kernels' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "reefwatch.pytest_plugin", "-q", str(tmp_path)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "reefwatch" not in done.stdout


def test_an_unknown_target_ends_before_anything_runs(tmp_path: Path) -> None:
    done = run(tmp_path, "", "--reefwatch-target", "gfx0")
    assert done.returncode == 4
    assert "not a modelled target" in done.stderr


@pytest.mark.serial
def test_a_suite_passes_with_verdicts(tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="the suite needs the triton wheel")
    done = run(tmp_path, "", "--reefwatch-target", "gfx1100")
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    assert "1 kernel, 1 verdict: 1 held, 0 broken, 0 unproven" in done.stdout


@pytest.mark.serial
def test_a_kernel_that_leaves_its_memory_makes_the_run_fail(tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="the suite needs the triton wheel")
    done = run(tmp_path, " + 8", "--reefwatch-target", "gfx1100,gfx942")
    assert "2 passed" in done.stdout
    assert done.returncode == 1
    assert "out of bounds" in done.stdout
