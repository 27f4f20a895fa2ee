"""A silence knows its findings again, and no others."""

from __future__ import annotations

from datetime import date

import pytest

from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Place
from reefwatch.core.silence import Silence, fingerprint

SEEN = (Evidence("x", 1),)


def finding(message: str = "m", **place: object) -> Finding:
    return Finding(message, SEEN, Place(**place))  # type: ignore[arg-type]


def test_a_silence_needs_a_reason() -> None:
    with pytest.raises(ValueError, match="needs a reason"):
        Silence("PREC001", " ", "here")


def test_it_applies_through_its_last_day() -> None:
    silence = Silence("PREC001", "r", "o", expires=date(2030, 1, 31))
    assert not silence.expired(date(2030, 1, 31))
    assert silence.expired(date(2030, 2, 1))
    assert not Silence("PREC001", "r", "o").expired(date(9999, 1, 1))


def test_a_glob_must_match_every_name_of_a_finding() -> None:
    several = Finding("m", SEEN, Place("a.weight"), names=("a.weight", "b.weight"))
    assert not Silence("PREC001", "r", "o", module="a*").covers("PREC001", several)
    assert Silence("PREC001", "r", "o", module="[ab].*").covers("PREC001", several)


@pytest.mark.parametrize(
    ("globs", "place", "covered"),
    [
        ({}, {}, True),
        ({"module": "head.*"}, {"module": "head.fc"}, True),
        ({"module": "head.*"}, {"module": "head"}, False),
        ({"module": "head.*"}, {"module": "ahead.fc"}, False),
        ({"module": "layers.?.attn"}, {"module": "layers.3.attn"}, True),
        ({"file": "model.py"}, {"file": "/x/src/model.py"}, True),
        ({"file": "src/model.py"}, {"file": "~/src/model.py"}, True),
        ({"file": "./src/*.py"}, {"file": "/x/src/model.py"}, True),
        ({"file": "/x/*"}, {"file": "/x/src/model.py"}, True),
        ({"file": "odel.py"}, {"file": "/x/src/model.py"}, False),
        ({"file": "model.py"}, {}, False),
        ({"module": "head", "file": "a.py"}, {"module": "head", "file": "b.py"}, False),
    ],
)
def test_globs(globs: dict[str, str], place: dict[str, str], covered: bool) -> None:
    silence = Silence("PREC001", "r", "o", **globs)  # type: ignore[arg-type]
    assert silence.covers("PREC001", finding(**place)) is covered
    assert not silence.covers("PREC002", finding(**place))


def test_an_inline_one_means_its_line_and_no_glob() -> None:
    silence = Silence("PREC001", "r", "o", file="/x/a[1].py", line=3)
    assert silence.covers("PREC001", finding(file="/x/a[1].py", line=3))
    assert not silence.covers("PREC001", finding(file="/x/a[1].py", line=4))
    assert not silence.covers("PREC001", finding(file="/x/a1.py", line=3))


BASE = finding("3 of 12 matmuls in f32 (2.5 MB)", module="a.3", op="mm", file="/x/t.py", line=3)


@pytest.mark.parametrize(
    "same",
    [
        finding("4 of 96 matmuls in f32 (17 MB)", module="a.3", op="mm", file="/x/t.py", line=99),
        finding(
            "3 of 12 matmuls in f32 (2.5e3 MB)", module="a.3", op="mm", file="~/y/t.py", step=7
        ),
    ],
)
def test_a_fingerprint_stays(same: Finding) -> None:
    assert fingerprint("PREC001", same) == fingerprint("PREC001", BASE)


@pytest.mark.parametrize(
    "other",
    [
        finding("3 of 12 matmuls in f64 (2.5 MB)", module="a.3", op="mm", file="/x/t.py"),
        finding("3 of 12 matmuls in f32 (2.5 MB)", module="a.4", op="mm", file="/x/t.py"),
        finding("3 of 12 matmuls in f32 (2.5 MB)", module="a.3", op="bmm", file="/x/t.py"),
        finding("3 of 12 matmuls in f32 (2.5 MB)", module="a.3", op="mm", file="/x/u.py"),
    ],
)
def test_a_fingerprint_differs(other: Finding) -> None:
    assert fingerprint("PREC001", other) != fingerprint("PREC001", BASE)
    assert fingerprint("PREC002", BASE) != fingerprint("PREC001", BASE)


def test_a_fingerprint_of_an_undecodable_name() -> None:
    assert len(fingerprint("PREC001", finding(file="/x/\udcff.py"))) == 16
