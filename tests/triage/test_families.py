"""Every family is one file that brings its own cases; a malformed one is refused by name."""

from __future__ import annotations

import copy
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from reefwatch import data
from reefwatch.triage.catalogue import families
from reefwatch.triage.decide import decide
from reefwatch.triage.family import MalformedFamily, Role, anchored, family, loaded
from reefwatch.triage.scan import Scanner

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KNOWN = [one for one in families() if one.known]
GOOD = [(one.id, log) for one in KNOWN for log in one.good]
NEAR = [(one.id, log) for one in KNOWN for log in one.near]


@pytest.mark.parametrize(("name", "log"), GOOD, ids=[f"{n}-{i}" for i, (n, _) in enumerate(GOOD)])
def test_a_good_case_is_the_family(told, name, log):
    assert told(log).family == name


@pytest.mark.parametrize(("name", "log"), NEAR, ids=[f"{n}-{i}" for i, (n, _) in enumerate(NEAR)])
def test_a_near_miss_is_not_the_family(told, name, log):
    assert told(log).family != name


def test_all_records_of_the_catalogue_are_there_once():
    ids = [record["id"] for one in KNOWN for record in one.records]
    assert len(ids) == len(set(ids)) >= 102
    assert len(KNOWN) >= 76
    assert all(one.sources for one in KNOWN)


@pytest.mark.parametrize("one", families(), ids=lambda one: one.id)
def test_a_clue_holds_its_anchors_and_says_where_it_is_from(one):
    for clue in one.clues.values():
        assert all(len(anchor) >= 3 for anchor in clue.anchors)
        if one.known:
            assert clue.records or clue.source


def test_patterns_do_not_rest_on_described_records():
    described = {r["id"] for one in KNOWN for r in one.records if r["raw"] == "described"}
    assert not described & {r for one in KNOWN for clue in one.clues.values() for r in clue.records}


def test_anchors_are_in_every_match():
    assert anchored(r"\bring \S+ timeout") == (" timeout",)
    assert set(anchored(r"(?:HIP|CUDA) out of memory")) == {" out of memory"}
    assert set(anchored(r"hipErrorNoDevice|no such card")) == {"hiperrornodevice", "no such card"}
    assert anchored(r"\d+|x") == ()
    assert anchored(r"(?:optional words)?\d+") == ()


def raw() -> dict[str, Any]:
    return copy.deepcopy(dict(data.table("failures/kfd-not-passed.toml")))


def without(key: str) -> dict[str, Any]:
    table = raw()
    del table[key]
    return table


def changed(**values: Any) -> dict[str, Any]:
    return {**raw(), **values}


CLUE = {"name": "missing", "pattern": "no such thing", "source": "x.c"}
BAD = {
    "no id": (without("id"), "id ''"),
    "id with blanks": (changed(id="Kfd Not"), "'Kfd Not'"),
    "no layer": (without("layer"), "layer is missing"),
    "unknown layer": (changed(layer="hardware"), "'hardware' is none of"),
    "no cause": (without("cause"), "cause is missing"),
    "no fix": (changed(fix=" "), "fix is missing"),
    "no match": (without("match"), "no [[match]]"),
    "no good case": (without("good"), "good and near cases"),
    "no near miss": (changed(near=[]), "good and near cases"),
    "broken pattern": (changed(clue=[{**CLUE, "pattern": "("}]), "no regular expression"),
    "no fixed words": (changed(clue=[{**CLUE, "pattern": r"\w+"}]), "fixed characters"),
    "no source": (changed(clue=[{**CLUE, "source": ""}]), "records or which library source"),
    "foreign record": (changed(clue=[{**CLUE, "records": ["other"]}]), "no machine record"),
    "clue twice": (changed(clue=[CLUE, CLUE]), "is there twice"),
    "unknown clue": (changed(match=[{"clues": ["gone"]}]), "names gone"),
    "unknown role": (changed(match=[{"clues": ["missing"], "role": "maybe"}]), "'maybe'"),
    "unknown key": (changed(titel="x"), "unknown key 'titel'; did you mean 'title'?"),
    "unknown key of a clue": (changed(clue=[{**CLUE, "patern": "x"}]), "[[clue]]: unknown key"),
    "unknown key of a match": (changed(match=[{"clues": ["missing"], "rol": "end"}]), "'rol'"),
    "too sure": (changed(match=[{"clues": ["missing"], "sure": 1.5}]), "within 0..1"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_malformed_family_is_refused_by_name(case):
    table, words = BAD[case]
    with pytest.raises(MalformedFamily, match=re.escape(words)) as refused:
        family(table, "kfd-not-passed.toml")
    assert str(refused.value).startswith("kfd-not-passed.toml: ")


def test_a_file_is_named_as_its_family_and_over_names_known_ones():
    with pytest.raises(MalformedFamily, match="whose file is"):
        loaded([("other.toml", raw())], ())
    with pytest.raises(MalformedFamily, match="over names gone"):
        loaded([("kfd-not-passed.toml", changed(over=["gone"]))], ())


def test_a_file_that_is_no_toml_is_refused_by_name(monkeypatch):
    whole = data.table

    def broken(path: str) -> Any:
        return tomllib.loads("id = ") if path == "failures/hip-oom.toml" else whole(path)

    monkeypatch.setattr(data, "table", broken)
    with pytest.raises(MalformedFamily, match=r"^hip-oom\.toml: no TOML"):
        families.__wrapped__()


def test_every_check_that_a_family_names_is_there():
    from reefwatch.judge.engine import load

    codes = {check.code for check in load()}
    named = {code for one in KNOWN for code in one.checks}
    assert len(named) > 30 and named <= codes
    assert all(code.startswith("MACH") for code in named)


def test_the_answer_names_the_checks_of_doctor(told):
    one = told("Unable to open /dev/kfd read-write: Permission denied\n")
    assert one.checks == ("MACH010",)
    assert {"what": "doctor", "code": "MACH010"} in one.also


def test_the_family_of_the_docs_works_as_it_is_written():
    page = (Path(__file__).parents[2] / "docs" / "triage.md").read_text()
    (block,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    table = tomllib.loads(block)
    mine = loaded([("my-family.toml", table)], data.table("layers.toml")["layer"])
    scanner = Scanner(mine)
    log = b"".join(line.encode() + b"\n" for line in table["failure"][0]["signature"])
    told = decide([scanner.read([log])], mine)
    assert (told.family, told.layer) == ("my-family", "cpp_hip")


def test_what_was_written_from_a_record_goes_with_it():
    one = next(one for one in KNOWN if one.id == "two-hip-runtimes")
    less = one.without("triton-pointer-cpu-tensor-windows")
    assert "path" in one.clues and "path" not in less.clues
    assert "pointer" in less.clues  # it rests on the library's own text
    assert all("path" not in match.clues for match in less.matches)
    assert max(match.role for match in less.matches) is Role.CAUSE
