"""Every precision check against its own cases and small runs; strict mode."""

from __future__ import annotations

import sys
import time
import traceback

import pytest
import torch
from torch.nn import functional as F

from reefwatch.core.errors import Breach
from reefwatch.core.finding import Severity, Verdict
from reefwatch.core.record import Case, Event
from reefwatch.gather.instrument import Tools
from reefwatch.gather.precision.audit import PrecisionAudit
from reefwatch.gather.precision.examine import Memory, examine
from reefwatch.judge.engine import judge, judge_rank, load
from reefwatch.judge.precision_claims import PROMISES
from reefwatch.judge.strict import Referee

# from PREC040 on they rest on other instruments than the audit (traces, gates, timing)
CHECKS = [c for c in load() if c.contract == "precision" and c.code < "PREC040"]
BY_CODE = {check.code: check for check in CHECKS}


def test_they_are_all_there():
    assert {f"PREC00{n}" for n in range(1, 8)} | {f"PREC02{n}" for n in range(7)} <= set(BY_CODE)


@pytest.mark.parametrize("code", BY_CODE)
def test_good_cases_hold_bad_ones_are_found_empty_is_unproven(code):
    check = BY_CODE[code]
    for case in check.good:
        outcome = judge_rank(check, case.record)
        assert outcome.verdict is Verdict.HELD, outcome
        assert not outcome.findings
    for case in check.bad:
        outcome = judge_rank(check, case.record)
        assert outcome.findings, outcome
        for finding in outcome.findings:
            assert finding.message == finding.message.strip()
            assert "!" not in finding.message
    assert judge_rank(check, Case.of().record).verdict is Verdict.UNPROVEN


def test_a_claim_that_the_check_is_not_about_is_not_made():
    said = judge_rank(BY_CODE["PREC001"], Case.of(claim__precision="fp32").record)
    assert said == "claim.precision is 'fp32' (case)"


def test_each_claim_is_judged_by_some_check():
    for claim in PROMISES:
        told = [judge_rank(check, Case.of(claim__precision=claim).record) for check in CHECKS]
        assert any(not isinstance(outcome, str) for outcome in told), claim


def codes(record):
    outcomes, _ = judge([record], CHECKS)
    return {o.code: (o.verdict.value, o.severity.name) for o in outcomes}


def step(model, x, claim, dtype=torch.bfloat16, enabled=True):
    def run():
        with torch.autocast("cpu", dtype, enabled=enabled):
            loss = model(x).float().sum()
        loss.backward()

    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return examine(run, optimizers=[optimizer], claim=claim)


def linear():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))


def test_autocast_that_never_ran():
    told = codes(step(linear(), torch.randn(4, 8), "bf16-mixed", enabled=False))
    assert told["PREC005"] == ("broken", "ERROR")
    assert told["PREC001"] == ("unproven", "NOTE")


def test_autocast_with_the_other_dtype():
    told = codes(step(linear(), torch.randn(4, 8), "bf16-mixed", torch.float16))
    assert told["PREC005"] == ("broken", "ERROR")


def test_low_precision_under_an_fp32_claim():
    told = codes(step(linear(), torch.randn(4, 8), "fp32"))
    assert told["PREC004"] == ("broken", "ERROR")


def test_fp32_under_a_pure_claim_and_its_healthy_twin():
    low = torch.randn(4, 8, dtype=torch.bfloat16)
    assert codes(step(linear(), torch.randn(4, 8), "bf16", enabled=False))["PREC003"] == (
        "broken",
        "ERROR",
    )
    healthy = step(linear().to(torch.bfloat16), low, "bf16", enabled=False)
    assert codes(healthy)["PREC003"] == ("held", "NOTE")


def test_16_bit_weights_under_a_mixed_claim():
    x = torch.randn(4, 8, dtype=torch.bfloat16)
    told = codes(step(linear().to(torch.bfloat16), x, "bf16-mixed"))
    assert told["PREC007"] == ("broken", "WARNING")


def test_weights_cast_again_in_each_call_are_told():
    model = linear()[0].requires_grad_(False)

    def run():
        with torch.autocast("cpu", torch.bfloat16):
            for _ in range(3):
                model(torch.ones(2, 8))

    record = examine(run, claim="bf16-mixed")
    casts = [e.data for e in record.events if e.data.get("kind") == "cast"]
    assert sum(row["recasts"] for row in casts) == 4


def test_promotion_names_the_operand():
    model = linear()

    def run():
        with torch.autocast("cpu", torch.bfloat16):
            table = torch.arange(8.0).cos()
            (model[0](torch.ones(2, 8)) * table).sum().backward()

    record = examine(run, claim="bf16-mixed")
    (outcome,) = [o for o in judge([record], CHECKS)[0] if o.code == "PREC006"]
    assert outcome.verdict is Verdict.HELD  # a note breaks nothing
    (finding,) = outcome.findings
    assert finding.place.op == "aten.mul.Tensor"
    assert finding.why.startswith(f"the fp32 operand: aten.arange.default at {__file__}:")


def test_without_a_claim_the_autocast_seen_is_one():
    fact = step(linear(), torch.randn(4, 8), "").facts["claim.precision"]
    assert (fact.value, fact.source) == ("bf16-mixed", "autocast state seen")


def test_a_run_without_any_claim_to_precision_has_none_to_prove():
    record = step(linear(), torch.randn(4, 8), "", enabled=False)
    outcomes, unclaimed = judge([record], CHECKS)
    assert outcomes == ()
    why = "no --claim was given and autocast was not used"
    told = {code for code, said in unclaimed.items() if said == why}
    assert told == {f"PREC00{n}" for n in range(1, 8)} | {"PREC022", "PREC023"}


def test_without_a_region_what_rests_on_one_is_not_held():
    record = step(linear(), torch.randn(4, 8), "bf16-mixed", enabled=False)
    verdicts = {o.code: o.verdict for o in judge([record], CHECKS)[0]}
    assert verdicts["PREC005"] is Verdict.BROKEN
    assert verdicts["PREC006"] is verdicts["PREC007"] is Verdict.UNPROVEN


def falls_back(x, weight):
    with torch.autocast("cpu", enabled=False):
        return F.linear(x.float(), weight)  # here


def test_strict_raises_in_the_users_own_frame_with_module_and_line():
    model = linear()
    model[2].forward = lambda x: falls_back(x, model[2].weight)
    with pytest.raises(Breach) as caught:
        with_referee(model)
    line = falls_back.__code__.co_firstlineno + 2
    assert str(caught.value) == (
        "PREC001: aten.mm.default in 2 ran in f32/f32 inside a bf16 region (autocast off), "
        f"at {__file__}:{line}"
    )
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert (__file__, line) in [(frame.filename, frame.lineno) for frame in frames]


def with_referee(model):
    def run():
        with torch.autocast("cpu", torch.bfloat16):
            model(torch.randn(4, 8)).sum()

    return examine(run, claim="bf16-mixed", referee=Referee(("precision",)))


def test_strict_lets_a_healthy_run_pass_and_knows_only_what_it_was_asked():
    with_referee(linear())
    row = {"kind": "matmul"}
    assert Referee(("loop",)).breach("precision", row) is None


def test_severity_of_what_is_only_inferred_is_lowered(monkeypatch):
    import threading

    model = linear()

    def elsewhere(x):
        box = []
        worker = threading.Thread(target=lambda: box.append(F.linear(x.float(), model[0].weight)))
        worker.start()
        worker.join()
        return box[0]

    model[0].forward = elsewhere
    record = step(model, torch.randn(4, 8), "bf16-mixed")
    (outcome,) = [o for o in judge([record], CHECKS)[0] if o.code == "PREC001"]
    assert outcome.severity is Severity.WARNING
    assert "its forward was not seen" in outcome.findings[0].message


def test_what_another_thread_ran_has_the_line_that_took_its_result():
    import threading

    model = linear()
    taken = []

    def elsewhere(x):
        box = []
        worker = threading.Thread(target=lambda: box.append(F.linear(x.float(), model[0].weight)))
        worker.start()
        worker.join()
        taken.append(sys._getframe().f_lineno + 1)
        return box[0].to(torch.bfloat16)

    model[0].forward = elsewhere
    record = step(model, torch.randn(4, 8), "bf16-mixed")
    (outcome,) = [o for o in judge([record], CHECKS)[0] if o.code == "PREC001"]
    place = outcome.findings[0].place
    assert (place.module, place.file, place.line) == ("0", __file__, taken[-1])
    assert [o.findings for o in judge([record], CHECKS)[0] if o.code == "PREC023"] == [()]


def test_an_in_place_product_is_not_cast_by_autocast_and_is_told():
    total, batch = torch.zeros(8, 8), torch.zeros(2, 8, 8)

    def products():
        with torch.autocast("cpu", torch.bfloat16):
            total.addmm_(torch.ones(8, 4), torch.ones(4, 8))
            batch.baddbmm_(torch.ones(2, 8, 4), torch.ones(2, 4, 8))

    record = examine(products, claim="bf16-mixed")
    (outcome,) = [o for o in judge([record], CHECKS)[0] if o.code == "PREC001"]
    assert [f.place.op for f in outcome.findings] == [
        "aten.addmm_.default",
        "aten.baddbmm_.default",
    ]
    assert record.facts["precision.compute"].value == {"f32": 2 * 8 * 8 * 4 * 3}


def test_a_region_of_another_dtype_is_told_with_its_first_product():
    def product():
        with torch.autocast("cpu", torch.float16):
            torch.ones(4, 4) @ torch.ones(4, 4)

    (outcome,) = [
        o for o in judge([examine(product, claim="bf16-mixed")], CHECKS)[0] if o.code == "PREC005"
    ]
    place = outcome.findings[0].place
    assert (place.op, place.file) == ("aten.mm.default", __file__)


def test_a_setting_that_rounds_on_the_cpu_breaks_a_claim_of_fp32():
    def product():
        torch.ones(2, 2) @ torch.ones(2, 2)

    torch.set_float32_matmul_precision("medium")
    try:
        record = examine(product, claim="fp32")
    finally:
        torch.set_float32_matmul_precision("highest")
    found = {o.code: o for o in judge([record], load())[0] if o.findings}
    assert "mkldnn.matmul.fp32_precision is bf16" in found["PREC004"].findings[0].message
    assert found["PREC052"].severity is Severity.NOTE


def test_flags_are_those_of_the_step_not_of_the_import(monkeypatch):
    """A script sets them after it has imported torch; looking at them must not wake a GPU."""
    monkeypatch.setattr(torch.cuda, "is_available", None)

    def step():
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.ones(2, 2) @ torch.ones(2, 2)

    before = torch.backends.cuda.matmul.allow_tf32
    try:
        record = examine(step, claim="fp32")
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    assert record.facts["precision.flags"].value["matmul.allow_tf32"] is True


def test_the_state_of_an_optimizer_older_than_the_watch():
    layer = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    audit, memory = PrecisionAudit(), Memory()
    audit.arm(Tools(torch, memory, time.perf_counter, None, {"claim": "bf16"}))
    audit.open(0)
    audit.after_update(optimizer, True)
    audit.close(0)
    audit.disarm()
    assert memory.facts["precision.state"].value["param"] == {"f32": 24}


def test_no_parameters_seen_is_unproven():
    record = examine(
        lambda: torch.ones(2, 2).bfloat16() @ torch.ones(2, 2).bfloat16(), claim="bf16"
    )
    outcomes, _ = judge([record], [BY_CODE["PREC003"]])
    assert outcomes[0].verdict is Verdict.UNPROVEN


def test_the_backward_of_a_backward_outside_autocast_is_a_note():
    model = linear()

    def run():
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(torch.randn(4, 8)).square().mean()
        x = torch.randn(4, 8, requires_grad=True)
        (slope,) = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
        (loss + slope.norm()).backward()

    record = examine(run, claim="bf16-mixed")
    (outcome,) = [o for o in judge([record], CHECKS)[0] if o.code == "PREC001"]
    assert outcome.verdict is Verdict.HELD
    (finding,) = outcome.findings
    assert "the backward of a backward" in finding.message


def test_a_librarys_line_comes_with_the_users_own():
    row = {"module": "", "dtype": "f32", "bytes": 9 << 20, "op": "aten.mul", "cause": None}
    row |= {"file": "/x/site-packages/lib/a.py", "line": 3, "caller": "/train.py:7", "origin": ""}
    case = Case.of(
        Event("precision.saved_by", row, id="1"),
        claim__precision="bf16-mixed",
        precision__saved={"f32": 9 << 20},
    )
    (check,) = [check for check in CHECKS if check.code == "PREC002"]
    (finding,) = check.rule(case)
    assert "called at /train.py:7" in finding.fix and "accept it" in finding.fix
