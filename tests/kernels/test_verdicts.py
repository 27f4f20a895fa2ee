"""What becomes of a launch, by what its witnesses say."""

from __future__ import annotations

from typing import Any

import pytest

from reefwatch.core.finding import Severity, Verdict
from reefwatch.core.record import Case, Event, Record
from reefwatch.judge import engine, kernels
from reefwatch.judge.kernels import example, witness
from reefwatch.show import kernel_issue, kernel_verdicts

HELD, BROKEN, UNPROVEN = Verdict.HELD, Verdict.BROKEN, Verdict.UNPROVEN


def said(*witnesses: Any, **more: Any) -> kernels.Said:
    row = example(subject__witnesses=list(witnesses), **more).data
    return kernels.launch(row, "gfx1100", row["subjects"]["gfx1100"])


@pytest.mark.parametrize(
    ("witnesses", "verdict"),
    [
        ([witness("interpreter", True)], HELD),
        ([witness("version", True)], HELD),
        ([witness("reference", True)], HELD),
        ([witness("warps", True)], UNPROVEN),  # the same compiler alone
        ([witness("warps", True), witness("target", True)], HELD),
        ([], UNPROVEN),
        ([witness("interpreter", False)], UNPROVEN),
        ([witness("interpreter", False), witness("warps", True)], UNPROVEN),
        # the interpreter is wrong for some dtypes: another version's word outweighs it
        ([witness("interpreter", False), witness("version", True)], HELD),
        (
            [witness("interpreter", False), witness("version", False, backed=["interpreter"])],
            BROKEN,
        ),
        # two that contradict the result and each other prove nothing
        ([witness("interpreter", False), witness("version", False)], UNPROVEN),
        ([witness("interpreter", False), witness("warps", False, backed=["interpreter"])], BROKEN),
        ([witness("interpreter", False), witness("reference", False)], BROKEN),
        # a version that stands alone against the interpreter is the one that is wrong
        ([witness("interpreter", True), witness("version", False)], HELD),
        ([witness("interpreter", True), witness("target", False)], HELD),
        ([witness("warps", False), witness("target", False)], UNPROVEN),
    ],
)
def test_verdict_by_witnesses(witnesses: list[Any], verdict: Verdict) -> None:
    assert said(*witnesses).verdict is verdict


def test_the_ir_is_a_second_witness_and_no_first_one() -> None:
    assert said(witness("interpreter", False), subject__compares=[2, 1]).verdict is BROKEN
    assert said(witness("interpreter", True), subject__compares=[2, 1]).verdict is HELD


def test_an_assert_of_the_file_is_a_second_witness() -> None:
    row = example(subject__witnesses=[witness("interpreter", False)]).data
    failed = {"kind": "AssertionError", "unit": "main"}
    assert kernels.launch(row, "gfx1100", row["subjects"]["gfx1100"], failed).verdict is BROKEN
    other = {"kind": "ValueError", "unit": "main"}
    assert kernels.launch(row, "gfx1100", row["subjects"]["gfx1100"], other).verdict is UNPROVEN


BF16 = [["a_ptr", "bf16", [16, 16]]]


def test_the_interpreter_alone_is_no_witness_in_bf16() -> None:
    told = [witness("interpreter", False), witness("warps", True), witness("target", True)]
    assert said(*told, arguments=BF16).verdict is HELD
    assert said(*told).verdict is UNPROVEN
    assert said(*told[:2], arguments=BF16).verdict is UNPROVEN
    # nor with Triton's own IR: masks are folded in right programs too
    ir = {"subject__compares": [2, 1], "arguments": BF16}
    assert said(*told[:1], **ir).verdict is UNPROVEN


def test_a_passing_assert_counts_for_what_was_written_back() -> None:
    unit = Event("kernels.unit", {"unit": "main", "ok": True, "asserts": True, "version": "3.7.1"})
    row = example(subject__witnesses=[witness("warps", True)])
    both = dict.fromkeys(("gfx1100", "gfx942"), row.data["subjects"]["gfx1100"])
    case = Case.of(unit, Event("kernels.launch", {**row.data, "subjects": both}), **kernels.FACTS)
    found = {one.target: one.verdict for one in kernels.verdicts(case)}
    assert found == {"gfx1100": HELD, "gfx942": UNPROVEN}


def test_what_was_not_run_is_unproven_with_its_reason() -> None:
    one = said(subject__status="refused", subject__reason="v_magic_b32: not known")
    assert one.verdict is UNPROVEN
    assert "v_magic_b32" in one.reason


def matrix(**verdicts: list[Any]) -> Case:
    rows = [
        example(version=version.replace("_", "."), subject__witnesses=told)
        for version, told in verdicts.items()
    ]
    return Case.of(*rows, **kernels.FACTS)


BAD = [witness("interpreter", False), witness("version", False, backed=["interpreter"])]
GOOD = [witness("interpreter", True)]


def test_the_first_bad_version_is_named() -> None:
    case = matrix(**{"3_3_1": GOOD, "3_10_0": BAD, "3_9_0": BAD})
    told = kernels.history(kernels.verdicts(case))[("add_kernel", "gfx1100")]
    assert told == "first bad version: 3.9.0 (bad: 3.9.0, 3.10.0); good: 3.3.1"


def test_one_version_has_no_history() -> None:
    assert kernels.history(kernels.verdicts(matrix(**{"3_7_0": BAD}))) == {}


RACE = {"kind": "LDS race", "message": "m", "line": 1, "instruction": "i", "loc": "", "times": 1}


def severity(case: Case, code: str) -> Severity:
    check = next(one for one in engine.load("kernels") if one.code == code)
    outcome = engine.judge_rank(check, case.record)
    assert not isinstance(outcome, str)
    return outcome.severity


def test_a_report_of_one_build_is_a_warning_and_with_a_clean_build_an_error() -> None:
    alone = Case.of(example(subject__reports=[RACE]), **kernels.FACTS)
    assert severity(alone, "KERN002") is Severity.WARNING
    beside = Case.of(example(subject__reports=[RACE]), example(version="3.9.0"), **kernels.FACTS)
    assert severity(beside, "KERN002") is Severity.ERROR


def test_another_launch_is_no_other_build() -> None:
    case = Case.of(example(subject__reports=[RACE]), example(launch=2), **kernels.FACTS)
    assert severity(case, "KERN002") is Severity.WARNING


def test_checks_of_kernels_stay_out_of_records_without_launches() -> None:
    plain = {check.contract for check in engine.fitting([Record()])}
    assert "kernels" not in plain
    with_launches = engine.fitting([Case.of(**kernels.FACTS).record])
    assert "kernels" in {check.contract for check in with_launches}


def test_the_issue_names_versions_and_evidence_and_the_script_compiles() -> None:
    row = example(
        subject__witnesses=BAD,
        source="@triton.jit\ndef add_kernel(out_ptr):\n    pass",
        inputs=[("out_ptr", "torch.tensor([0], device=device)")],
        arguments=[["out_ptr", "i32", [1]]],
    )
    case = Case.of(row, example(version="3.9.0", subject__witnesses=GOOD), **kernels.FACTS)
    found = kernels.verdicts(case)
    made = kernel_issue.files("add_kernel", found, kernels.history(found))
    issue = made["add_kernel-issue.md"]
    assert "| gfx1100 | 3.7.1 | wrong |" in issue
    assert "| gfx1100 | 3.9.0 | right |" in issue
    assert "First bad version: 3.7.1; good: 3.9.0." in issue
    assert "interpreter" in issue
    assert "not on a card" in issue
    compile(made["add_kernel-repro.py"], "repro", "exec")


def test_the_table_has_a_column_for_each_version() -> None:
    rows = [
        {"kernel": "k", "target": "gfx1100", "triton": v, "verdict": w, "reason": r, "history": ""}
        for v, w, r in (("3.7.0", "broken", "contradicted"), ("3.9.0", "held", ""))
    ]
    shown = kernel_verdicts.text({"kernels": rows, "matrix": {"versions": {}}})
    assert "kernel  target   3.7.0   3.9.0" in shown
    assert "k       gfx1100  broken  held" in shown
    assert "1 kernel, 2 verdicts: 1 held, 1 broken, 0 unproven" in shown


def test_the_table_names_versions_that_could_not_be_run() -> None:
    facts = {"matrix": {"versions": {"99": {"failed": "triton 99 could not be installed: none"}}}}
    assert "triton 99: triton 99 could not be installed" in kernel_verdicts.text(facts)
