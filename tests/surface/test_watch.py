"""`with reefwatch.watch() as w`: in code and notebooks."""

from __future__ import annotations

import html
import subprocess
import sys

import pytest

import reefwatch
from reefwatch.core.errors import UsageError


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


def steps(torch, low: bool = True) -> None:
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(4):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=low):
            loss = model(torch.randn(8, 4)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def test_a_block_is_judged_at_its_end(tmp_path):
    torch = pytest.importorskip("torch")
    with reefwatch.watch(claim="bf16-mixed", out=tmp_path / "run") as w:
        steps(torch)
    verdicts = {outcome.code: outcome.verdict.value for outcome in w.report.outcomes}
    assert verdicts["PREC001"] == "held"
    assert w.folder == tmp_path / "run"
    assert (w.folder / "report.html").is_file()
    w.save_html(tmp_path / "mine.html")
    assert (tmp_path / "mine.html").read_text().lstrip().lower().startswith("<!doctype html")
    again = reefwatch.report(w.folder)
    assert again.last_line() == w.report.last_line()
    broken = reefwatch.report(w.folder, claim="fp32")
    assert "broken" in {outcome.verdict.value for outcome in broken.outcomes}


def test_a_notebook_shows_the_report(tmp_path):
    with reefwatch.watch() as w:
        assert "has not ended" in w._repr_html_()
    shown = w._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "<!doctype html" in html.unescape(shown).lower()


def test_what_the_block_raises_passes_through_unchanged():
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught, reefwatch.watch() as w:
        raise error
    assert caught.value is error
    assert error.__context__ is None
    (record,) = w.report.records
    assert record.fact("run.exit").value["exception"] == "ValueError: mine"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_so_do_exits(stop):
    with pytest.raises(stop), reefwatch.watch() as w:
        raise stop
    assert w.report.outcomes


def test_watches_cannot_be_nested():
    with (
        reefwatch.watch() as w,
        pytest.raises(reefwatch.ReefwatchError, match="a watch is on already"),
        reefwatch.watch(),
    ):
        pass
    assert w.report
    with reefwatch.watch() as after:
        pass
    assert after.report


INSIDE = """
import torch, reefwatch

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
with reefwatch.watch({asked}) as w:
    for _ in range(6):
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(torch.randn(8, 4)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
held = {{o.code for o in w.report.outcomes if o.verdict.name == "HELD"}}
print("LOOP001" in held, w.folder)
"""


@pytest.mark.parametrize(
    ("asked", "words", "claimed"),
    [
        ("claim='bf16-mixed'", [], ["bf16-mixed", "reefwatch.watch in the program"]),
        ("strict='loop', budget=0.5", ["budget, strict"], ["bf16-mixed", "autocast state seen"]),
    ],
)
def test_a_watch_in_a_watched_program_is_part_of_it(tmp_path, asked, words, claimed):
    (tmp_path / "inside.py").write_text(INSIDE.format(asked=asked))
    command = [sys.executable, "-m", "reefwatch", "run", "--out", "rec", "inside.py"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.stdout.split() == ["True", str(tmp_path / "rec")], ran.stderr
    assert ran.returncode == 0
    (record,) = reefwatch.report(tmp_path / "rec").records
    claim = record.fact("claim.precision")
    assert [claim.value, claim.source] == claimed
    late = [remark for remark in record.remarks if "cannot take effect" in remark]
    assert len(late) == len(words)
    assert all(word in remark for word, remark in zip(words, late, strict=True))


def test_of_two_claims_inside_the_first_stands(tmp_path):
    text = INSIDE.format(asked="claim='fp32'") + INSIDE.format(asked="claim='bf16-mixed'")
    (tmp_path / "inside.py").write_text(text)
    command = [sys.executable, "-m", "reefwatch", "run", "--out", "rec", "inside.py"]
    subprocess.run(command, capture_output=True, text=True, timeout=120)
    (record,) = reefwatch.report(tmp_path / "rec").records
    assert record.fact("claim.precision").value == "fp32"
    assert any("its claim cannot take effect" in remark for remark in record.remarks)


def test_a_watch_is_used_once():
    w = reefwatch.watch()
    with w:
        pass
    with pytest.raises(reefwatch.ReefwatchError, match="used already"), w:
        pass


def test_there_is_no_report_before_the_end():
    with reefwatch.watch() as w, pytest.raises(reefwatch.ReefwatchError, match="block ends"):
        w.report  # noqa: B018


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"claim": "bf17"}, "'bf17' is not a known claim"),
        ({"strict": ["speed"]}, "'speed' cannot be strict"),
        ({"exam": -1}, "in seconds, from 0 on"),
        ({"exam": float("nan")}, "in seconds, from 0 on"),
        ({"budget": 2}, "a share from 0% to below 100%"),
    ],
)
def test_unknown_words_are_told_at_once(asked, words):
    with pytest.raises(UsageError, match=words):
        reefwatch.watch(**asked)


@pytest.mark.parametrize(
    ("word", "means"),
    [("16-mixed", "fp16-mixed"), ("bf16-true", "bf16"), ("32-true", "fp32"), ("BF16", "bf16")],
)
def test_the_trainers_words_are_understood(word, means):
    from reefwatch.api.settings import precision

    assert precision(word) == means


def test_every_claim_is_one_that_the_judge_knows():
    from reefwatch.api.settings import CLAIMS
    from reefwatch.judge.precision_claims import PROMISES

    assert set(CLAIMS) == set(PROMISES)


def test_strict_words():
    from reefwatch.api.settings import STRICT, contracts
    from reefwatch.judge.strict import HOOKS

    assert set(STRICT) == set(HOOKS)  # what nobody looks at cannot be asked for
    assert contracts("all") == STRICT
    assert contracts("loop,precision") == ("precision", "loop")
    assert contracts(["loop"]) == ("loop",)
    assert contracts(()) == ()


def test_a_failure_of_ours_is_an_errored_outcome(monkeypatch):
    from reefwatch.store import writer

    def broken(*args, **more):
        raise RuntimeError("no record today")

    monkeypatch.setattr(writer, "Writer", broken)
    with reefwatch.watch() as w:
        pass
    (outcome,) = (o for o in w.report.outcomes if o.verdict.value == "errored")
    assert outcome.reason == "RuntimeError: no record today"


def test_an_exception_that_cannot_say_itself_passes_through():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no words")

    with pytest.raises(Mute), reefwatch.watch() as w:
        raise Mute
    assert w.report.records[0].fact("run.exit").value["exception"] == "Mute"
