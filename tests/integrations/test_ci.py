"""`ci suite` and `ci init`."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from reefwatch.api import ci, workflows
from reefwatch.core.errors import UsageError
from reefwatch.show import suite as show
from reefwatch.show import suite_files as files

TESTS = """
import pytest
import torch


def train(clear):
    layer = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    for _ in range(6):
        if clear:
            optimizer.zero_grad()
        layer(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()


def test_sound():
    train(True)


def test_never_clears():
    train(False)


@pytest.mark.skip(reason="Requires: [GPUs>=1]")
def test_on_a_gpu():
    raise AssertionError


def test_broken():
    assert 1 == 2


@pytest.mark.xfail(reason="known")
def test_expected():
    assert 1 == 2
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    (folder / "test_it.py").write_text(TESTS)
    known = (ci.Known("test_it.py::test_brok*", "https://example.org/1"),)
    return ci.suite(folder, ["-q", "-p", "no:cacheprovider"], known=known, exam=100.0)


def test_every_test_has_its_outcome(told):
    outcomes = {row["test"].partition("::")[2]: row["outcome"] for row in told.rows}
    assert outcomes == {
        "test_sound": "passed",
        "test_never_clears": "passed",
        "test_on_a_gpu": "skipped",
        "test_broken": "failed",
        "test_expected": "xfailed",
    }


def test_the_contracts_name_the_test_that_trains_wrongly(told):
    assert {one["test"].partition("::")[2] for one in told.broken()["LOOP001"]} == {
        "test_never_clears"
    }
    steps = {row["test"].partition("::")[2]: row.get("steps") for row in told.rows}
    assert steps["test_sound"] == 6


def test_known_failures_are_not_new(told):
    assert told.new_failures == []
    told_without = ci.Suite(told.command, told.rows, 1.0, 1)
    assert [row["test"] for row in told_without.new_failures] == ["test_it.py::test_broken"]


def test_a_known_failure_that_passes_is_told(told):
    mended = ci.Suite(
        told.command, told.rows, 1.0, 1, known=(ci.Known("*test_sound", "https://example.org/2"),)
    )
    assert [known.test for known in mended.mended] == ["*test_sound"]


def test_the_table_groups_skips_and_findings(told):
    text = show.render(told)
    assert "| Requires: [GPUs>=1] | 1 |" in text
    assert "| LOOP001 | error | 1 |" in text
    assert "(known: https://example.org/1)" in text
    json.dumps(told.plain())


def test_junit_joins_tests_and_contracts(told):
    import xml.etree.ElementTree as ET

    tests, contracts = ET.fromstring(files.junit(told))
    assert (tests.get("tests"), tests.get("failures"), tests.get("skipped")) == ("5", "0", "3")
    wrong = [case for case in contracts if case.find("failure") is not None]
    assert ("LOOP001", "test_it.py::test_never_clears") in {
        (case.get("classname"), case.get("name")) for case in wrong
    }
    bare = ci.Suite(told.command, told.rows, 1.0, 1)
    assert ET.fromstring(files.junit(bare))[0].get("failures") == "1"


def test_the_page_tells_each_test_and_escapes(told):
    rows = [{**told.rows[0], "reason": "<script>"}, *told.rows[1:]]
    page = files.html(ci.Suite(told.command, rows, 1.0, 1, known=told.known))
    assert page.count("<tr") == 1 + len(rows)
    assert "<script>" not in page
    assert "known: https://example.org/1" in page
    assert "LOOP001 (error)" in page


def test_nothing_there():
    with pytest.raises(UsageError, match="there is nothing"):
        ci.suite("/nonexistent/tests")


def test_a_known_failure_needs_an_address(tmp_path):
    (tmp_path / "known.toml").write_text('[[failure]]\ntest = "x"\n')
    with pytest.raises(UsageError, match="needs `test` and `address`"):
        ci.known_failures(tmp_path / "known.toml")


@pytest.mark.parametrize("host", ["github", "gitlab"])
@pytest.mark.parametrize("kind", ["lightning", "transformers", "kernel-library", "generic"])
def test_workflows_are_valid_by_their_schema(tmp_path, kind, host):
    wish = {"gpu": 'RX 7900 "XTX"', "target": "gfx1100", "tests": "my tests"}
    workflow, *_ = workflows.write(kind, host, tmp_path, **wish)
    schema = "vendor.github-workflows" if host == "github" else "vendor.gitlab-ci"
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(workflow)]
    told = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
    assert told.returncode == 0, told.stdout
    compile((tmp_path / ".reefwatch" / "smoke.py").read_text(), "smoke.py", "exec")


def test_files_that_are_there_are_kept(tmp_path):
    wish = {"gpu": "MI300X", "target": "gfx942", "tests": "tests"}
    workflow, *_ = workflows.write("generic", "github", tmp_path, **wish)
    workflow.write_text("mine")
    with pytest.raises(UsageError, match="there already"):
        workflows.write("generic", "github", tmp_path, **wish)
    assert workflow.read_text() == "mine"
    workflows.write("generic", "github", tmp_path, **wish, force=True)
    assert workflow.read_text() != "mine"
