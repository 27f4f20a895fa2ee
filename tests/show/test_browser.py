"""The HTML file in headless Chromium: it opens, says what it should, and asks for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reefwatch.show import html
from tests.show import browser, reports
from tests.show.test_text import SHAPES

pytestmark = pytest.mark.skipif(browser.BINARY is None, reason="no Chromium was found")
WIDE, PHONE = 1200, 390


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Page]:
    with browser.Page(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def show(
    page: browser.Page, folder: Path, text: str, width: int = WIDE, scheme: str = "light"
) -> None:
    file = folder / "report.html"
    file.write_text(text, encoding="utf-8")
    page.open(file, width, scheme=scheme)


def test_the_browser_would_tell(page: browser.Page, tmp_path: Path) -> None:
    """The instruments of this file see a complaint and a request when there is one."""
    show(page, tmp_path, "<script>console.error('x')</script><img src='http://127.0.0.1:9/a.png'>")
    assert page.complaints()
    assert page.requests() == ["http://127.0.0.1:9/a.png"]


@pytest.mark.parametrize("shape", SHAPES)
def test_opens_in_silence(page: browser.Page, tmp_path: Path, shape: str) -> None:
    show(page, tmp_path, html.render(SHAPES[shape](), reports.PAGES))
    assert page.complaints() == []
    assert page.requests() == []
    assert SHAPES[shape]().last_line() in page.evaluate("document.body.innerText")


@pytest.mark.parametrize("width", [PHONE, 768, WIDE])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_screen(
    page: browser.Page, tmp_path: Path, width: int, scheme: str
) -> None:
    show(page, tmp_path, html.render(reports.several_ranks(), reports.PAGES), width, scheme)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.screenshot(tmp_path / "shot.png")
    assert (tmp_path / "shot.png").stat().st_size > 20_000


@pytest.mark.parametrize("nasty", reports.NASTY)
def test_a_nasty_string_is_read_as_text(page: browser.Page, tmp_path: Path, nasty: str) -> None:
    show(page, tmp_path, html.render(reports.nasty(nasty), {"PREC001": nasty}), PHONE)
    assert page.complaints() == []
    assert page.requests() == []
    assert page.evaluate("document.scripts.length") == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE


CONTRAST = """
(() => {
  const rgb = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = (c) => c.slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const c = rgb(getComputedStyle(node).backgroundColor);
      if (c.length === 3 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const low = new Set();
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || node.closest("svg")) continue;
    const [a, b] = [light(rgb(getComputedStyle(node).color)), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.add(node.className + " " + node.tagName + " " + ratio.toFixed(2));
  }
  return [...low];
})()
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(page: browser.Page, tmp_path: Path, scheme: str) -> None:
    """Contrast of at least 4.5 to 1 (WCAG 2.1, 1.4.3)."""
    errored = replace(
        reports.cnn_report(), outcomes=(*reports.cnn_report().outcomes, reports.ERRORED)
    )
    show(page, tmp_path, html.render(errored, reports.PAGES), scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate(CONTRAST) == []


def test_dark_follows_the_system(page: browser.Page, tmp_path: Path) -> None:
    colours = []
    for scheme in ("light", "dark"):
        show(page, tmp_path, html.render(reports.cnn_report()), scheme=scheme)
        colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(244, 242, 236)", "rgb(16, 19, 22)"]


def test_the_keyboard_reaches_charts_and_the_tree(page: browser.Page, tmp_path: Path) -> None:
    show(page, tmp_path, html.render(reports.cnn_report()))
    said = "document.activeElement.querySelector('figcaption span').textContent"
    page.evaluate("document.querySelector('.chart').focus()")
    summary = page.evaluate(said)
    page.press("ArrowRight", 39)
    assert page.evaluate(said) == "step 0: 2.27 s"
    page.press("ArrowRight", 39)
    assert page.evaluate(said).startswith("step 1: ")
    page.press("End", 35)
    assert page.evaluate(said).startswith("step 299: ")
    page.press("Escape", 27)
    assert page.evaluate(said) == summary
    closed = "[...document.querySelectorAll('.tree details')].filter(d => !d.open).length"
    before = page.evaluate(closed)
    page.evaluate("document.querySelector('.tree details details summary').focus()")
    page.send(
        "Input.dispatchKeyEvent", type="keyDown", key="Enter", text="\r", windowsVirtualKeyCode=13
    )
    page.send("Input.dispatchKeyEvent", type="keyUp", key="Enter", windowsVirtualKeyCode=13)
    assert page.evaluate(closed) == before - 1


def test_a_fragment_leaves_its_host_alone(page: browser.Page, tmp_path: Path) -> None:
    host = "<!doctype html><style>p{color:rgb(1, 2, 3)}</style><p>host</p><table><td>x</table>"
    look = """JSON.stringify([...document.querySelectorAll('body > p, body > table td')].map(n => {
      const style = getComputedStyle(n);
      return [style.color, style.padding, style.font, style.borderBottomWidth];
    }))"""
    show(page, tmp_path, host)
    before = page.evaluate(look)
    show(page, tmp_path, host + html.render(reports.cnn_report(), fragment=True))
    assert page.evaluate(look) == before
    assert page.evaluate("document.querySelector('.reefwatch h1').textContent").startswith(
        "train.py"
    )
    assert page.complaints() == []
