"""Silences are read from where they are written; mistakes are told with file and key."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from reefwatch.core.errors import ReefwatchError, UsageError
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Outcome, Place, Severity, Verdict
from reefwatch.core.report import Report
from reefwatch.core.silence import Silence
from reefwatch.judge.silence import apply
from reefwatch.store import baseline
from reefwatch.store.scrub import Scrubber
from reefwatch.store.silences import inline, load

CODES = {"PREC001", "LOOP002"}
SEEN = (Evidence("x", 1),)


def finding(message: str = "3 matmuls in f32", **place: object) -> Finding:
    return Finding(message, SEEN, Place(**place))  # type: ignore[arg-type]


def test_from_reefwatch_toml(tmp_path: Path) -> None:
    (tmp_path / "reefwatch.toml").write_text(
        """
        [[silence]]
        code = "PREC001"
        reason = "the head stays in f32"
        module = "head.*"
        file = "src/model.py"
        expires = 2030-01-31

        [[silence]]
        code = "LOOP002"
        reason = "frozen on purpose"
        expires = "2030-02-01"
        """
    )
    (tmp_path / "pyproject.toml").write_text("[tool.reefwatch]\nunread = 1\n")
    assert load(tmp_path, codes=CODES) == (
        Silence(
            "PREC001",
            "the head stays in f32",
            "reefwatch.toml, silence 1",
            "head.*",
            "src/model.py",
            expires=date(2030, 1, 31),
        ),
        Silence(
            "LOOP002", "frozen on purpose", "reefwatch.toml, silence 2", expires=date(2030, 2, 1)
        ),
    )


def test_from_pyproject_and_from_a_named_file(tmp_path: Path) -> None:
    text = '[[tool.reefwatch.silence]]\ncode = "PREC001"\nreason = "known"\n'
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n" + text)
    (silence,) = load(tmp_path)
    assert silence.origin == "pyproject.toml [tool.reefwatch], silence 1"
    other = tmp_path / "other.toml"
    other.write_text('[[silence]]\ncode = "LOOP002"\nreason = "known"\n')
    assert [s.code for s in load(tmp_path, other)] == ["LOOP002"]
    assert [s.code for s in load(tmp_path, tmp_path / "pyproject.toml")] == ["PREC001"]


def test_without_configuration(tmp_path: Path) -> None:
    assert load(tmp_path) == ()
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert load(tmp_path) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[silence]]\nreason = "x"', "silence 1: code: a silence needs one"),
        ('[[silence]]\ncode = "PREC001"', "silence 1: reason: a silence needs one"),
        ('[[silence]]\ncode = "PREC001"\nreason = " "', "silence 1: reason: a silence needs one"),
        ('[[silence]]\ncode = "prec1"\nreason = "x"', "silence 1: code: 'prec1' is not a code"),
        ('[[silence]]\ncode = "ABC001"\nreason = "x"', "silence 1: code: 'ABC001' is not a code"),
        ('[[silence]]\ncode = "PREC999"\nreason = "x"', "code: no check has the code PREC999"),
        ('[[silence]]\ncode = "PREC001"\nreason = "x"\nmodul = "a"', "unknown key 'modul'"),
        ('[[silence]]\ncode = 1\nreason = "x"', "silence 1: code must be text"),
        ('[[silence]]\ncode = "PREC001"\nreason = "x"\nexpires = "soon"', "expires: 'soon' is not"),
        ('[[silence]]\ncode = "PREC001"\nreason = "x"\nexpires = 3', "expires must be a date"),
        ('[silence]\ncode = "PREC001"', "silence must be a list of tables"),
        ("silence = [1]", "silence 1: must be a table"),
        ("[[silences]]", "unknown key 'silences'"),
        ("baseline = 3", "baseline must be the path"),
        ("baseline = 'nowhere.json'", "nowhere.json: no such file"),
        ("[[silence", "Expected"),
        ("a = '\ud800'", "reefwatch.toml"),
    ],
)
def test_mistakes_are_told_with_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "reefwatch.toml").write_text(text, errors="surrogatepass")
    with pytest.raises(UsageError) as caught:
        load(tmp_path, codes=CODES)
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert "reefwatch.toml" in str(caught.value) or "nowhere.json" in str(caught.value)


def test_a_configuration_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        load(tmp_path, tmp_path / "nowhere.toml")
    (tmp_path / "pyproject.toml").write_text("[tool]\nreefwatch = 3\n")
    with pytest.raises(UsageError, match=r"tool\.reefwatch must be a table"):
        load(tmp_path)


SOURCE = """\
import torch
x = a @ b  # reefwatch: ignore[PREC001] the reference is f32
y = "# reefwatch: ignore[PREC001] in a string"
z = a @ b  # reefwatch: ignore[PREC001, LOOP002]: both known
w = a @ b  # reefwatch: ignore[PREC001]
v = a @ b  # reefwatch: ignore[PREC999] no such check
u = a @ b  # reefwatch: ignore everything
t = a @ b  # noqa
"""


def test_inline(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(SOURCE)
    silences, remarks = inline([finding(file=str(file), line=2), finding()], CODES)
    assert [(s.code, s.line, s.reason, s.origin) for s in silences] == [
        ("PREC001", 2, "the reference is f32", "train.py:2"),
        ("PREC001", 4, "both known", "train.py:4"),
        ("LOOP002", 4, "both known", "train.py:4"),
    ]
    assert remarks == (
        "train.py:5: ignore[PREC001] needs a reason",
        "train.py:6: no check has the code PREC999",
        "train.py:7: a silence needs one",
    )
    on_line = [
        n for n in range(1, 9) if silences[0].covers("PREC001", finding(file=str(file), line=n))
    ]
    assert on_line == [2]


def test_inline_finds_the_file_behind_a_scrubbed_path(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SOURCE)
    scrubber = Scrubber([str(tmp_path)])
    here = finding(file="~/train.py", line=2)
    silences, _ = inline([here], CODES, scrubber)
    assert silences[0].covers("PREC001", here)


@pytest.mark.parametrize(
    "raw",
    [b"", b"x = (  # reefwatch: ignore[PREC001] x", b"\xff\xfe reefwatch:", b"# coding: none\n"],
)
def test_inline_in_what_is_no_source(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "x.py").write_bytes(raw)
    assert inline([finding(file=str(tmp_path / "x.py"), line=1)]) == ((), ())
    assert inline([finding(file=str(tmp_path / "gone.py"), line=1)]) == ((), ())
    assert inline([finding(file=str(tmp_path), line=1)]) == ((), ())


def report(*outcomes: Outcome) -> Report:
    return Report("run", outcomes)


def broken(code: str, *findings: Finding) -> Outcome:
    return Outcome(code, "t", Verdict.BROKEN, Severity.ERROR, findings)


def test_a_baseline_silences_what_it_was_written_from(tmp_path: Path) -> None:
    path = tmp_path / baseline.FILE_NAME
    old = finding(module="a", file="/x/train.py", line=3)
    assert baseline.write(report(broken("PREC001", old)), path, "before we looked") == 1
    moved = finding("4 matmuls in f32", module="a", file="/y/train.py", line=9)
    new = finding(module="b", file="/x/train.py", line=3)
    outcomes, remarks = apply([broken("PREC001", moved, new)], load(tmp_path), date(2030, 1, 1))
    assert outcomes[0].silenced == ((moved, "before we looked"),)
    assert outcomes[0].findings == (new,) and outcomes[0].verdict is Verdict.BROKEN
    assert remarks == ()


def test_writing_a_baseline_again_keeps_reasons_and_drops_what_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    a, b, c = (finding(module=name) for name in "abc")
    baseline.write(report(broken("PREC001", a, b)), path, "first", date(2030, 1, 1))
    (outcome,), _ = apply([broken("PREC001", a, c)], baseline.read(path), date(2029, 1, 1))
    baseline.write(report(outcome), path, "second")
    told = {s.reason: s.expires for s in baseline.read(path)}
    assert told == {"first": date(2030, 1, 1), "second": None}
    assert [p.name for p in tmp_path.iterdir()] == ["b.json"]


def test_a_baseline_needs_a_reason_and_a_place(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs a reason"):
        baseline.write(report(), tmp_path / "b.json", " ")
    with pytest.raises(ReefwatchError, match="no such file"):
        baseline.write(report(), tmp_path / "no" / "b.json", "x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not a baseline (no JSON)"),
        ("[]", "not a baseline"),
        ('{"schema": 2, "silences": []}', "a baseline of schema 2, this reefwatch reads 1"),
        ('{"schema": 1, "silences": [3]}', "silence 1: must be an object"),
        ('{"schema": 1, "silences": [{"code": "PREC001"}]}', "silence 1: fingerprint: "),
        (
            '{"schema": 1, "silences": [{"code": "PREC001", "fingerprint": "a", "reason": ""}]}',
            "silence 1: reason: a silence needs one",
        ),
        (
            '{"schema": 1, "silences": [{"code": "PREC001", "fingerprint": "a", "reason": "x",'
            ' "expires": "soon"}]}',
            "silence 1: expires: ",
        ),
    ],
)
def test_what_is_no_baseline(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "b.json"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load(tmp_path, baseline=path)
    assert said in str(caught.value) and str(path) in str(caught.value)
