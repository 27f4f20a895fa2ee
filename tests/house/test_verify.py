"""The runner of the bars: a page says what was printed, and whether it was met."""

from pathlib import Path

import pytest


@pytest.fixture
def verify(script, monkeypatch):
    module = script("verify/__main__")
    monkeypatch.setattr(module, "about", lambda: "torch 0")
    return module


def bars(folder: Path, code: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "loop.py").write_text(code)
    (folder / "loop_models.py").write_text("raise SystemExit('a part, not a bar')\n")
    return folder


def test_the_parts_of_a_bar_are_no_bars(verify, tmp_path):
    assert verify.words(bars(tmp_path / "v", "")) == ["loop"]


@pytest.mark.parametrize(
    ("code", "ends", "said"),
    [
        ("print('| a |')", 0, "All bars were met."),
        ("print('| a |'); raise SystemExit(1)", 1, "NOT all bars were met."),
    ],
)
def test_a_page_says_what_came_out(verify, tmp_path, code, ends, said):
    pages = tmp_path / "pages"
    assert verify.main(["loop"], bars(tmp_path / "v", code), pages) == ends
    text = (pages / "loop.md").read_text()
    assert said in text
    assert "torch 0" in text
    assert text.endswith("| a |\n")


def test_a_bar_that_says_nothing_is_not_met(verify, tmp_path):
    assert verify.main(["loop"], bars(tmp_path / "v", ""), tmp_path / "pages") == 1
    assert not (tmp_path / "pages").exists()


def test_a_part_of_the_bars_writes_no_page(verify, tmp_path, capfd):
    folder = bars(tmp_path / "v", "import sys; print(sys.argv[1:])")
    assert verify.main(["loop", "--seed", "1"], folder, tmp_path / "pages") == 0
    assert "['--seed', '1']" in capfd.readouterr().out
    assert not (tmp_path / "pages").exists()


def test_an_unknown_word_is_told_what_there_is(verify, tmp_path, capsys):
    assert verify.main(["lop"], bars(tmp_path / "v", "")) == 2
    assert capsys.readouterr().err.endswith("known: loop\n")
