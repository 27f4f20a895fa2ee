"""The faultlab's missing zero_grad, on MLP and CNN, and its healthy twins."""

import sys
from pathlib import Path

import pytest

from reefwatch.core.finding import Severity, Verdict

DATA = Path(__file__).parents[1] / "data" / "faultlab"


@pytest.fixture(scope="module")
def faultlab():
    """The faultlab, loaded once: it registers a custom op."""
    sys.path.insert(0, str(DATA))
    try:
        import faultlab

        yield faultlab
    finally:
        sys.path.remove(str(DATA))


@pytest.mark.parametrize(("kind", "first"), [("mlp", "fc1.weight"), ("cnn", "conv1.weight")])
def test_missing_zero_grad_is_found_and_located(bars, faultlab, kind, first):
    outcomes = bars.watched(lambda: lambda: faultlab.run(kind, "zerograd", 8))
    outcome = outcomes["LOOP001"]
    assert (outcome.verdict, outcome.severity) == (Verdict.BROKEN, Severity.ERROR)
    (finding,) = outcome.findings
    lines = (DATA / "faultlab.py").read_text().splitlines()
    assert Path(finding.place.file).name == "faultlab.py"
    assert lines[finding.place.line - 1].strip() == "opt.step()"
    assert finding.message.startswith(f"gradients of {first}, ")
    assert finding.message.endswith("were not cleared in 6 of 6 update cycles of SGD")


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_the_healthy_twin_breaks_nothing(bars, faultlab, kind):
    outcomes = bars.watched(lambda: lambda: faultlab.run(kind, "none", 8))
    assert [o.code for o in outcomes.values() if o.verdict is Verdict.BROKEN] == []
