"""What the api makes of records before they are judged."""

from __future__ import annotations

from reefwatch.api.judging import absent, judged
from reefwatch.core.finding import Verdict
from reefwatch.core.record import Record


def test_a_rank_without_a_record_leaves_everything_unproven() -> None:
    records = [Record({"rank": rank, "world": 4, "run_id": "a"}) for rank in (0, 2)]
    assert [record.rank for record in absent(records)] == [1, 3]
    report = judged("report", records)
    assert {outcome.verdict for outcome in report.outcomes} == {Verdict.UNPROVEN}
    assert len(report.records) == 2


def test_each_group_of_children_has_ranks_of_its_own() -> None:
    groups = {"spawned-1": (0, 1), "spawned-2": (0,)}
    records = [
        Record({"rank": rank, "world": 2, "group": group})
        for group, ranks in groups.items()
        for rank in ranks
    ]
    (lost,) = absent(records)
    assert lost.damage == "rank 1 of 2 spawned children left no record here"


def test_nothing_is_absent_when_every_rank_is_there() -> None:
    assert absent([Record({"rank": rank, "world": 2}) for rank in (0, 1)]) == []
