"""Who is to blame, from where each rank stands."""

import torch

from reefwatch.experiments.dist import diagnosis
from reefwatch.gather.dist.agreed import signature
from reefwatch.gather.dist.replicas import looked_at
from reefwatch.gather.dist.watchdog import diagnosed

NAMES = {3: "matrix reduce float32"}


def stands(step=3, **more):
    return {"step": step, "raised": "", "after": False, "at": "forms.py:9 reduce", **more}


def words(dumps, world=2, stop=None, kernel=None):
    return diagnosis.told(stop or {"why": "no end", "rank": 0}, dumps, NAMES, world, kernel)


def test_a_process_that_died_is_to_blame():
    told = words({0: stands(), 1: {"exit": "was killed by SIGKILL", "step": 3}})
    assert told["ranks"] == [1] and "rank 1 was killed by SIGKILL" in told["words"]
    assert "rank 0 waits at forms.py:9 reduce" in told["words"] and told["step"] == 3


def test_a_stopped_worker():
    told = words({0: stands(), 1: {"silent": True, "state": "T", "step": 3}})
    assert told["ranks"] == [1] and "is stopped (SIGSTOP)" in told["words"]


def test_an_agent_without_an_answer_is_lost():
    told = words({0: stands()}, kernel={1: "is gone: its process was killed or ended"})
    assert told["lost"] == [1] and "rank 1 is gone" in told["words"]


def test_the_one_that_raised():
    told = words({0: stands(), 1: stands(raised="ValueError: no", after=True)})
    assert told["ranks"] == [1] and "raised ValueError" in told["words"]


def test_the_one_that_did_not_come_out():
    told = words({0: stands(after=True), 1: stands()})
    assert told["ranks"] == [1] and "did not come out" in told["words"]


def test_all_of_them():
    assert "transport or a device" in words({0: stands(), 1: stands()})["words"]


def at(issued, op="all_reduce", place="train.py:30"):
    last = {"op": op, "sizes": "[[8]]"}
    return {"issued": issued, "at": place, "last": last, "inside": True}


def test_a_run_that_hangs_names_rank_collective_and_line():
    said = diagnosed({0: at(9), 1: at(8, place="train.py:12")}, 2)
    assert said.startswith("rank 1 never came to collective 9 (all_reduce [[8]], train.py:30)")
    assert "rank 1 is at train.py:12" in said


def test_different_collectives_of_one_number():
    said = diagnosed({0: at(9), 1: at(9, "broadcast")}, 2)
    assert "different collectives with number 9" in said and "broadcast" in said


def test_a_long_evaluation_is_not_told_as_a_hang():
    apart = {r: {**at(9, place="eval.py:7"), "inside": False} for r in range(2)}
    said = diagnosed(apart, 2)
    assert (
        said
        == "no rank is seen inside a collective: rank 0 is at eval.py:7, rank 1 is at eval.py:7"
    )


def test_a_rank_that_says_nothing():
    assert diagnosed({0: at(9)}, 2).startswith("rank 1 is not stuck here or gave no sign")


def test_a_signature_holds_what_must_agree():
    ones = torch.ones(8)
    op = torch.distributed.ReduceOp.MAX
    assert signature(torch, "all_reduce", (ones, op), {}) == "all_reduce 8 float32 MAX"
    assert (
        signature(torch, "broadcast", (ones.int(), 1), {"async_op": True})
        == "broadcast 8 int32 root 1"
    )
    uneven = signature(torch, "all_to_all_single", (ones, torch.ones(4)), {})
    assert uneven == "all_to_all_single float32 float32"


def test_the_same_steps_are_looked_at_on_all_ranks_and_ever_fewer():
    steps = [step for step in range(5000) if looked_at(step)]
    assert steps[:16] == list(range(16))
    assert len(steps) < 60 and steps[-1] > 4000
