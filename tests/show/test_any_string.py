"""Any string, anywhere in a report, breaks no format."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reefwatch.show import html, junit, sarif, text
from reefwatch.show import json as show_json
from tests.show import reports
from tests.show.test_html import Reader
from tests.show.test_json import refuse, strict
from tests.show.test_sarif import check

PIECES = [
    "<",
    ">",
    "&",
    '"',
    "'",
    "</script>",
    "<!--",
    "]]>",
    "\x1b[2J",
    "\x00",
    "\u2028",
    "{{",
    "%}",
    ".",
    "/",
    "\\",
]
ANY = st.lists(
    st.sampled_from(PIECES) | st.text(st.characters(exclude_categories=()), max_size=8), max_size=8
).map("".join)
CALM = Reader(html.render(reports.nasty("calm"), {"PREC001": "calm"})).tags
slow = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@slow
@given(ANY)
def test_html(said: str) -> None:
    page = html.render(reports.nasty(said), {"PREC001": said})
    page.encode("utf-8")
    tags = Reader(page).tags
    assert tags["script"] == tags["main"] == 1
    assert set(tags) <= set(CALM)


@slow
@given(ANY)
def test_json_and_sarif(said: str) -> None:
    strict(show_json.render(reports.nasty(said)))
    log = sarif.render(reports.nasty(said), {"PREC001": said})
    json.loads(log, parse_constant=refuse)
    check(log)


@slow
@given(ANY)
def test_junit(said: str) -> None:
    root = ET.fromstring(junit.render(reports.nasty(said)).encode("utf-8"))
    assert len(list(root.iter("testcase"))) == 5


@slow
@given(ANY, st.integers(60, 200), st.booleans())
def test_text(said: str, width: int, ascii: bool) -> None:
    shown = text.render(reports.nasty(said), color=False, width=width, ascii=ascii)
    assert shown.endswith("\n" + reports.nasty(said).last_line() + "\n")
    assert "\x1b" not in shown
    assert shown.isprintable() or all(
        c.isprintable() or c == "\n" or not c.isascii() for c in shown
    )
