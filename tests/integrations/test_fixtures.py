"""The pytest fixtures: right code passes, wrong code fails readably, the rest is skipped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from reefwatch.measure import departures

pytestmark = pytest.mark.serial
EXAMPLE = Path(__file__).parents[2] / "examples" / "test_fixtures.py"

SUITE = """
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

q = torch.linspace(-1, 1, 256).reshape(1, 2, 16, 8)


def on_the_math_path(q):
    with sdpa_kernel(SDPBackend.MATH):
        return scaled_dot_product_attention(q, q, q)


def test_math_path(no_fallback):
    no_fallback(on_the_math_path, q)


def test_nothing_to_see(no_fallback):
    no_fallback(lambda x: x + 1, q)


def test_sum_is_a_bit_off(matches_reference):
    def wrong(x):
        out = x.softmax(-1)
        out[0, 1, 3, 5] += 1e-4
        return out

    matches_reference(wrong, q, reference=lambda x: x.softmax(-1))


def test_gradient_is_off(matches_reference):
    class Slope(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, sent):
            return sent * 2.1

    x = q.clone().requires_grad_()
    matches_reference(Slope.apply, x, reference=lambda x: x * 2)


def test_no_such_reference(matches_reference):
    matches_reference(lambda x: x, q, reference="nowhere/at/all")


def test_another_watch_is_on(matches_fp64, tmp_path):
    import reefwatch

    with reefwatch.watch(out=tmp_path / "run"):
        matches_fp64(torch.softmax, q, -1)


def test_an_op_is_wrong(matches_fp64, monkeypatch):
    library = torch.library.Library("aten", "IMPL")

    def softmax(x, dim, half):
        out = (x - x.amax(dim, keepdim=True)).exp()
        return out / (out.sum(dim, keepdim=True) + 1e-3)

    library.impl("_softmax", softmax, "CPU")
    try:
        matches_fp64(torch.softmax, q, -1)
    finally:
        library._destroy()


def test_it_is_compiled_wrongly(compiled_matches):
    def backend(graph, examples):
        for node in graph.graph.nodes:
            if node.op == "call_function" and node.target is torch.relu:
                node.target = torch.abs
        graph.recompile()
        return graph.forward

    compiled_matches(lambda x: torch.relu(x) * 2, q, backend=backend)


def test_the_tested_code_raises(matches_reference):
    def raises(x):
        raise KeyError("its own")

    matches_reference(raises, q, reference=lambda x: x)
"""


def run(folder: Path, file: Path, *options: str, path: tuple[str, ...] = ()) -> str:
    plugin = ("-p", "reefwatch.pytest_plugin", "-p", "no:cacheprovider", "-q", "-rA")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, *options, str(file)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*path, *sys.path]),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    return done.stdout


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    (folder / "test_suite.py").write_text(SUITE)
    return run(folder, folder / "test_suite.py")


def failure(told: str, name: str) -> str:
    return re.split(r"\n_{3,} |\n={3,} ", told.partition(f"_ {name} _")[2])[0]


def test_the_example_passes(tmp_path):
    (tmp_path / EXAMPLE.name).write_text(
        EXAMPLE.read_text()
    )  # away from the settings of this suite
    assert "4 passed" in run(tmp_path, tmp_path / EXAMPLE.name)


def test_outcomes(told):
    assert "7 failed" not in told
    assert "6 failed, 3 skipped" in told


def test_a_fallback_is_named(told):
    text = failure(told, "test_math_path")
    assert "attention of q [1, 2, 16, 8] in f32 took the math path at test_suite.py:" in text


def test_skips_have_their_reason(told):
    assert "unproven: no attention, no compiled code and no known kernel" in told
    assert "unproven: there is no reference at nowhere/at/all" in told
    assert "unproven: another watch is on in this process" in told


def test_a_wrong_element_is_told_with_statistics(told):
    text = failure(told, "test_sum_is_a_bit_off")
    assert "output[0, 1, 3, 5] is" in text
    assert "1 of 256 elements are off by more than is allowed" in text
    assert re.search(r"below 1 +2\d\d #+", text)
    passes = float(re.search(r"would have passed: rtol=0, atol=([^;\s]+)", text)[1])
    assert 1e-4 <= passes < 1.2e-4


def test_a_wrong_gradient_is_told(told):
    text = failure(told, "test_gradient_is_off")
    assert "gradient" in text
    assert "256 of 256 elements" in text


def test_a_wrong_op_is_told(told):
    text = failure(told, "test_an_op_is_wrong")
    assert "softmax" in text
    assert "times farther off than rounding allows" in text


def test_wrong_compiled_code_is_told(told):
    text = failure(told, "test_it_is_compiled_wrongly")
    assert "compiled code departs from the original" in text
    assert "compiled and 0 in float64" in text
    assert "torch.__trace" not in text


def test_what_the_tested_code_raises_is_its_own(told):
    assert "KeyError: 'its own'" in told


def test_without_torch_nothing_passes(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import importlib.util, sys\n"
        "find = importlib.util.find_spec\n"
        "import reefwatch.api.fixtures as fixtures\n"
        "fixtures.find_spec = lambda name: None if name == 'torch' else find(name)\n"
        "def test_it(no_fallback, matches_fp64):\n"
        "    no_fallback(print)\n"
        "def test_that(compiled_matches):\n"
        "    compiled_matches(print)\n"
    )
    said = run(tmp_path, tmp_path / "test_it.py")
    assert "2 skipped" in said
    assert "unproven: torch is not installed" in said


def test_the_tolerance_that_is_told_would_pass():
    off, size = [0.0, 1.04e-3, 2e-5], [1.0, 2.0, 0.5]
    lines = departures.lines(off, size, 1, 1.04e-3, 1e-6, 2.0**-23)
    last = lines[-1]
    absolute = float(re.search(r"atol=([^;]+);", last)[1])
    relative = float(re.search(r"or rtol=([^,]+),", last)[1])
    assert all(error <= absolute for error in off)
    assert all(error <= relative * true for error, true in zip(off, size, strict=True))


def test_the_histogram_counts_every_value():
    lines = departures.histogram([0.0, 0.5, 3.0, 30.0, 31.0, 1e30])
    assert (
        sum(int(line.split()[-2] if line.endswith("#") else line.split()[-1]) for line in lines)
        == 6
    )
