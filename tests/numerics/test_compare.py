"""`reefwatch compare`: two references that were recorded apart."""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from reefwatch.api.compare import compare  # noqa: E402
from reefwatch.core.errors import UnreadableRecord  # noqa: E402
from reefwatch.core.finding import Verdict  # noqa: E402
from reefwatch.show import divergence  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts" / "verify"))
import numerics_reference as bank  # noqa: E402


def recorded(place, change=None, seed=0):
    program = bank.Program("cnn", "fp32", seed)
    if change is not None:
        change(program)
    bank.watched(program, place, record=place)
    return place


def verdicts(report):
    return {outcome.code: outcome.verdict for outcome in report.outcomes}


def test_the_same_program_holds_and_a_changed_one_parts_where_it_was_changed(tmp_path):
    one = recorded(tmp_path / "one")
    same = compare(one, recorded(tmp_path / "two"))
    assert set(verdicts(same)) == {f"REF00{n}" for n in range(1, 7)}
    assert verdicts(same)["REF002"] is Verdict.HELD
    other = compare(one, recorded(tmp_path / "three", lambda p: bank._eps(p, "net.1")))
    broken = [o for o in other.outcomes if o.verdict is Verdict.BROKEN]
    assert broken[0].findings[0].place.module == "net.1"
    shown = divergence.text(other.records[0])
    assert "net.1" in shown and "loss" in shown


def test_runs_that_were_given_other_things_prove_nothing(tmp_path):
    report = compare(recorded(tmp_path / "one"), recorded(tmp_path / "two", seed=3))
    assert verdicts(report)["REF002"] is Verdict.UNPROVEN


def test_what_is_no_reference_is_one_line(tmp_path):
    with pytest.raises(UnreadableRecord, match="is no reference"):
        compare(recorded(tmp_path / "one"), tmp_path)


def test_the_page_shows_map_curve_and_the_worst_element(tmp_path):
    from reefwatch.show import html

    one = recorded(tmp_path / "one")
    report = compare(one, recorded(tmp_path / "two", lambda p: bank._eps(p, "net.1")))
    page = html.render(report)
    assert 'id="rw-parting"' in page and "Loss beside the reference&#39;s" in page
    rows = [e.data for e in report.records[0].events if e.kind == "reference.row"]
    row = next(r for r in rows if r["op"] == "aten.native_batch_norm.default" and r["value"])
    assert len(row["index"]) == len(row["pair"]) * 2  # an element of four axes, on both sides
