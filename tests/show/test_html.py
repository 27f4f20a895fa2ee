"""The HTML file, read as a parser reads it; `test_browser.py` opens it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from reefwatch.core.fact import Evidence
from reefwatch.core.record import Event, Record
from reefwatch.core.report import Report
from reefwatch.show import html, tree, words
from tests.show import reports
from tests.show.test_text import SHAPES, many

VOID = {"meta", "link", "col", "br", "img"}
LEAVES = {"path", "rect"}
LIMIT = 2_000_000


class Reader(HTMLParser):
    """Tags, attributes and text; refuses a tag that is not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in LEAVES
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag in ("td", "th", "dt", "dd", "p", "span"):
            self.text.append(" ")

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("style", "script"):
            self.text.append(data)

    @property
    def said(self) -> str:
        return " ".join("".join(self.text).split())

    def addresses(self) -> list[str]:
        names = ("href", "src", "srcset", "data", "action", "poster", "xlink:href")
        return [value for _, name, value in self.attributes if name in names]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("fragment", [False, True])
def test_is_well_formed_and_refers_to_nothing_outside(shape: str, fragment: bool) -> None:
    text = html.render(SHAPES[shape](), reports.PAGES, fragment=fragment)
    page = Reader(text)
    for address in page.addresses():
        assert address == "data:," or re.fullmatch(r"#rw-[a-z0-9]+", address)
    assert not re.search(r"url\(|@import|https?://", text)
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {a[1:] for a in page.addresses() if a.startswith("#")} <= set(ids)
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert page.tags["script"] == (0 if fragment else 1)
    assert page.tags["main"] == page.tags["h1"] == 1
    assert SHAPES[shape]().last_line() in page.said


def test_tells_findings_claims_and_the_rest() -> None:
    said = Reader(html.render(reports.cnn_report(), reports.PAGES)).said
    upcast = reports.UPCAST
    for text in (upcast.message, upcast.claimed, upcast.why, upcast.cost, upcast.fix):
        assert text in said
    for text in (
        "head.proj, aten.mm.default, model.py:41",
        "share of flops 13 % dispatch, 23 steps measured",
        "cause explicit upcast user frame by name",
        "Why: a matmul in f32 is 2 to 16 times slower.",
        "23 of 300 steps",
        "PERF005 pcie link registers are not readable in this container",
        "LOOP006, LOOP007 loop.scaler is false (no GradScaler was built)",
        "4 data loader workers are processes of their own",
        "saved for backward 1.03 GiB f32 240 MiB, bf16 812 MiB, i64 3 MiB",
        "torch 2.13.0 ROCm 7.1.25424",
        "median 118 ms",
        "1 step above the axis, the longest 2.27 s",
    ):
        assert text in said, text


def test_a_report_without_a_record_says_so() -> None:
    said = Reader(html.render(reports.empty())).said
    assert "No record" in said
    assert "Nothing was judged" in said


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (reports.all_held(), "No claim is broken."),
        (reports.only_unproven(), "No claim is broken; 9 unproven."),
        (reports.errored(), "No claim is broken; 1 errored."),
    ],
)
def test_nothing_broken_is_not_all_proven(report: Report, expected: str) -> None:
    assert expected in Reader(html.render(report)).said


def test_several_ranks_have_a_table() -> None:
    said = Reader(html.render(reports.several_ranks())).said
    assert "ranks 0-3" in said
    assert "4 of 8" in said
    assert "ranks 4-7 of 8 left no record" in said
    assert "Ranks" in said
    assert "The run rank 0" in said


def test_a_record_without_an_end_and_a_failed_instrument_are_told() -> None:
    record = reports.cnn_record()
    error = Evidence("errored.perf", {"error": "OSError: gone", "where": "on_step", "step": 12})
    cut = replace(record, complete=False, facts={**record.facts, "errored.perf": error})
    said = Reader(html.render(reports.with_records(reports.HELD, records=(cut,)))).said
    assert "the record has no end: the run was cut off" in said
    assert "OSError: gone" in said


def test_silenced_findings_are_kept_with_their_reason() -> None:
    said = Reader(html.render(reports.silenced())).said
    assert "silenced: head.proj is small, agreed until 2027-01-01" in said
    assert reports.UPCAST.message in said
    assert "No claim is broken." in said


def big_record(steps: int, ops: int) -> Record:
    record = reports.cnn_record(more_ops=ops)
    times = [0.1 + (n % 1000) * 1e-5 for n in range(steps)]
    seen = [n % 50 == 0 for n in range(steps)]
    more = (
        Event("perf.steps", {"first": 300, "seconds": times, "examined": seen}),
        Event("loop.loss", {"first": 300, "values": times}),
    )  # fmt: skip
    return replace(record, events=(*record.events, *more))


def test_a_million_steps_and_five_thousand_rows_stay_small() -> None:
    report = reports.with_records(reports.HELD, records=(big_record(1_000_000, 5000),))
    text = html.render(report, reports.PAGES)
    assert len(text.encode()) <= LIMIT
    page = Reader(text)
    rows = len(tree.ops(report.records[0]))
    assert f"of {rows:,}, largest first" in page.said
    assert f"and {rows - 60:,} more, not shown" in page.said
    assert page.tags["tr"] < 200


@pytest.mark.parametrize("letter", ["x", "<", "日", "&"])
def test_many_findings_with_long_strings_stay_small(letter: str) -> None:
    report = many(40, 60)
    long = letter * 10_000
    finding = replace(
        reports.UPCAST, message=long, why=long, fix=long, cost=long, claimed=long,
        evidence=(Evidence(long, long, long, long),) * 20,
    )  # fmt: skip
    outcomes = tuple(
        replace(o, findings=(finding,) * 60, title=long, reason=long) for o in report.outcomes
    )
    report = replace(report, outcomes=outcomes)
    text = html.render(report, {o.code: long for o in outcomes})
    assert len(text.encode()) <= LIMIT
    page = Reader(text)
    assert re.search(r"\b5\d more", page.said)
    assert report.last_line() in page.said


def test_a_deep_and_wide_module_tree() -> None:
    paths = [".".join(["m"] * depth) for depth in range(1, 900, 7)]
    paths += [f"wide.{n}" for n in range(3000)]
    rows = [
        Event("precision.op", {"module": p, "in": ["f32"], "out": ["bf16"], "flops": n, "bytes": n})
        for n, p in enumerate(paths)
    ]
    text = html.render(Report("run", (), records=(Record(events=tuple(rows)),)))
    assert len(text.encode()) <= LIMIT
    assert "more with a smaller share" in Reader(text).said


@pytest.mark.parametrize("nasty", reports.NASTY)
@pytest.mark.parametrize("fragment", [False, True])
def test_no_string_becomes_markup(nasty: str, fragment: bool) -> None:
    calm = Reader(html.render(reports.nasty("calm"), {"PREC001": "calm"}, fragment=fragment))
    text = html.render(reports.nasty(nasty), {"PREC001": nasty}, fragment=fragment)
    page = Reader(text)
    assert page.tags == calm.tags
    text.encode("utf-8")
    assert " ".join(words.line(nasty, 1500).split()) in page.said


def test_the_policy_admits_the_one_script_only() -> None:
    text = html.render(reports.cnn_report())
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert "default-src &#39;none&#39;" in policy or "default-src 'none'" in policy
    assert "script-src 'sha256-" in policy
    assert "unsafe-eval" not in policy


def shapes_of(value: Any) -> Report:
    """A report whose record holds `value` for every fact, header and event value."""
    facts = {name: Evidence(name, value) for name in reports.cnn_facts()}
    facts["claim.precision"] = Evidence("claim.precision", value)
    kinds = ("precision.op", "precision.saved_by", "perf.steps", "perf.sample", "loop.loss")
    keys = {key for event in reports.cnn_record().events for key in event.data}
    events = tuple(Event(kind, dict.fromkeys(keys, value)) for kind in kinds)
    header = dict.fromkeys(reports.cnn_record().header, value)
    return Report(
        "run", reports.HELD, records=(Record(header, facts, events),), facts={"html": value}
    )


ODD = [
    None, True, 0, -1, 3.5, 1e300, -1e308, 10**400, float("nan"), float("inf"), "", "text", [], {},
    [None], [[1, 2], {"a": 3}], {"count": "many", "steps": None, "bf16": -3},
    {"f32": 1e308, "x": []}, [1e308, -1e308], [0, float("nan"), 1e-320],
    {"script": ["x"], "seconds": float("inf")},
]  # fmt: skip


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_a_record_of_another_shape_breaks_nothing(value: Any) -> None:
    text = html.render(shapes_of(value))
    Reader(text)
    assert "nan" not in "".join(re.findall(r' d="([^"]*)"', text))
    assert "inf" not in "".join(re.findall(r' d="([^"]*)"', text))
