"""The silent upcast of faultlab is found and located; the healthy twin is silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from reefwatch.core.finding import Severity, Verdict
from reefwatch.gather.precision.examine import examine
from reefwatch.judge.engine import judge, load

# from PREC040 on they rest on other instruments than the audit (traces, gates, timing)
CHECKS = [c for c in load() if c.contract == "precision" and c.code < "PREC040"]


def outcomes_of(faultlab, kind, fault):
    model, optimizer, data = faultlab.make(kind, fault)
    x, y = data[0]
    record = examine(
        lambda: faultlab.one_step(model, optimizer, x, y, fault),
        optimizers=[optimizer],
        claim="bf16-mixed",
        steps=2,
    )
    outcomes, unclaimed = judge([record], CHECKS)
    return {outcome.code: outcome for outcome in outcomes}, unclaimed


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_upcast_is_broken_at_fc1_with_its_line(faultlab, kind):
    outcomes, _ = outcomes_of(faultlab, kind, "upcast")
    outcome = outcomes["PREC001"]
    assert outcome.verdict is Verdict.BROKEN
    assert outcome.severity is Severity.ERROR
    (finding,) = outcome.findings
    assert finding.place.module == "fc1"
    assert finding.place.file == faultlab.__file__
    lines = Path(faultlab.__file__).read_text().splitlines()
    assert "F.linear(x.float()" in lines[finding.place.line - 1]
    ops = "aten.addmm.default, aten.mm.default"
    assert finding.message == f"{ops} ran in f32 inside a bf16 region, in forward and backward"
    assert finding.why == "autocast was switched off there, inside the region"
    assert finding.claimed == "bf16-mixed, by --claim"


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_healthy_has_no_finding_at_error_level(faultlab, kind):
    outcomes, unclaimed = outcomes_of(faultlab, kind, "none")
    assert {code: o.verdict.value for code, o in outcomes.items()} == {
        "PREC001": "held",
        "PREC002": "held",
        "PREC005": "held",
        "PREC006": "held",
        "PREC007": "held",
        "PREC022": "held",
        "PREC023": "held",
    }
    of_others = {"PREC020", "PREC021", "PREC024", "PREC025", "PREC027", "PREC026"}
    assert set(unclaimed) == {"PREC003", "PREC004"} | of_others
    assert {c.what: c.share for c in outcomes["PREC001"].coverage} == {"steps": 1, "modules": 1}
