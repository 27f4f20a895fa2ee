"""What the records of several ranks say together."""

from reefwatch.core.fact import Evidence, Unknown
from reefwatch.core.record import Event, Record
from reefwatch.judge import engine, ranks

STEPS = 6


def record(rank, world=2, sums=None, losses=None, issued=None, wrapper="DDP", hang=None, **facts):
    looks = []
    for step in range(STEPS):
        data = {
            "step": step,
            "issued": issued(step) if issued else 4 + step,
            "loss": losses(step) if losses else (0.5 + step + rank).hex(),
            "exact": True,
            "tensors": sums(step) if sums else {"w": f"{step}", "b": f"{step}"},
        }
        looks.append(Event("ranks.look", data, step, str(step)))
    if hang:
        looks.append(Event("ranks.hang", hang, id=str(rank)))
    watched = {"wrapper": wrapper, "looks": STEPS, "steps": STEPS, "tensors": 2, "sharded": 0}
    watched["group"] = facts.pop("group", [])
    told = {"ranks.watched": {**watched, "broadcast_buffers": True}, **facts}
    made = {name: Evidence(name, value) for name, value in told.items()}
    return Record({"rank": rank, "world": world}, made, tuple(looks))


def outcome(code, *records):
    told, unclaimed = engine.judge(ranks.together(records))
    found = {one.code: one for one in told}
    return found.get(code) or unclaimed[code]


def test_equal_ranks_are_silent():
    for code in ("DIST040", "DIST041", "DIST042"):
        assert outcome(code, record(0), record(1)).verdict.value == "held"


def test_one_process_makes_no_claim_about_ranks():
    told, unclaimed = engine.judge(ranks.together([record(0, world=1)]))
    assert not {"DIST040", "DIST041"} & ({one.code for one in told} | set(unclaimed))


def drifting(step):
    return {"w": f"{step}" if step < 3 else "other", "b": f"{step}"}


def test_a_drift_is_dated_and_of_three_ranks_the_odd_one_is_named():
    told = outcome("DIST040", record(0, 3), record(1, 3, drifting), record(2, 3))
    message = told.findings[0].message
    assert "1 of 2 parameters" in message and "since step 3: w" in message
    assert "rank 1 is the odd one" in message


def test_of_two_ranks_nobody_is_blamed():
    message = outcome("DIST040", record(0), record(1, sums=drifting)).findings[0].message
    assert "ranks 0, 1 differ" in message


def test_shards_are_no_replicas():
    told = outcome(
        "DIST040",
        record(0, sums=lambda s: {"w@shard 0": "1"}, wrapper="FSDP2"),
        record(1, sums=lambda s: {"w@shard 1": "2"}, wrapper="FSDP2"),
    )
    assert told == "all parameters are sharded: no rank holds what another one has"


def test_ranks_that_never_were_alike_are_no_replicas_unless_ddp_makes_them():
    def other(step):
        return {"w": "x", "b": "y"}

    free = outcome("DIST040", record(0, wrapper=""), record(1, sums=other, wrapper=""))
    assert "no wrapper makes replicas" in free
    assert outcome("DIST040", record(0), record(1, sums=other)).findings


def test_the_same_losses_are_the_same_data():
    def same(step):
        return (1.0 + step).hex()

    told = outcome("DIST041", record(0, losses=same), record(1, losses=same))
    assert "train on the same data" in told.findings[0].message
    constant = outcome("DIST041", *(record(r, losses=lambda s: "0x1p+0") for r in (0, 1)))
    assert constant.verdict.value == "unproven"


def test_a_skipped_collective_is_dated():
    told = outcome("DIST042", record(0, issued=lambda s: 4 + s - (s > 1)), record(1))
    assert "by step 2" in told.findings[0].message


def test_scalers_that_part():
    def scaler(skipped):
        return {"used": True, "steps": 9, "skipped": skipped, "scale": 2.0}

    told = outcome(
        "DIST043", record(0, **{"loop.scaler": scaler(0)}), record(1, **{"loop.scaler": scaler(1)})
    )
    assert "rank 1: 1 of 9 skipped" in told.findings[0].message


HANG = {
    "rank": 0,
    "step": 3,
    "issued": 9,
    "at": "t.py:3",
    "seconds": 61.0,
    "words": "rank 1 ...",
    "last": None,
    "resumed": False,
    "told": [{"rank": 0, "inside": True, "at": "t.py:3"}],
}


def test_a_hang_breaks_the_claim_only_where_the_run_did_not_go_on():
    ended = {"run.exit": {"code": 1, "exception": "RuntimeError"}}
    assert outcome("DIST044", record(0, hang=HANG, **ended), record(1)).verdict.value == "broken"
    went_on = {"run.exit": {"code": 0, "exception": None}}
    told = outcome("DIST044", record(0, hang=HANG, **went_on), record(1, **went_on))
    assert told.verdict.value == "held" and told.findings


def test_a_rank_without_a_record_leaves_it_unproven():
    alone = ranks.together([record(0)])[0]
    assert isinstance(alone.fact("ranks.replicas"), Unknown)


def other(step):
    return {"w": "x", "b": "y"}


def test_ranks_are_held_against_those_of_their_own_group():
    pairs = [
        record(r, 4, other if r > 1 else None, group=[r // 2 * 2, r // 2 * 2 + 1]) for r in range(4)
    ]
    assert outcome("DIST040", *pairs).verdict.value == "held"
    pairs[3] = record(3, 4, drifting, group=[2, 3])
    message = outcome("DIST040", *pairs).findings[0].message
    assert "2 of 4 parameters" in message and "ranks 2, 3 differ" in message


def test_a_rank_beside_the_group_is_no_replica():
    beside = record(2, 3, other, wrapper="")
    told = outcome("DIST040", record(0, 3, group=[0, 1]), record(1, 3, group=[0, 1]), beside)
    assert told.verdict.value == "held"
    drifted = record(1, 3, drifting, group=[0, 1])
    assert outcome("DIST040", record(0, 3, group=[0, 1]), drifted, beside).findings


def test_nothing_is_held_where_every_rank_is_alone():
    told = outcome("DIST040", record(0, group=[0]), record(1, sums=drifting, group=[1]))
    assert told == "each rank trains in a group of its own: none has a partner to be held against"


def test_ranks_of_a_launch_that_train_apart_are_told():
    def lonely(rank, steps):
        told = {"ranks.watched": False, "run.steps": {"count": steps, "kind": "optimizer"}}
        made = {name: Evidence(name, value) for name, value in told.items()}
        return Record({"rank": rank, "world": 2}, made)

    message = outcome("DIST047", lonely(0, 9), lonely(1, 9)).findings[0].message
    assert "2 ranks of a launch of 2 trained, each for itself" in message
    assert "DIST047" not in {
        one.code for one in engine.judge(ranks.together([lonely(0, 9), lonely(1, 0)]))[0]
    }


def test_a_rank_that_a_wrapper_counts_on_is_held_against_it_though_none_was_seen_there():
    whole = [record(r, 3, group=[0, 1, 2]) for r in range(2)]
    told = outcome("DIST040", *whole, record(2, 3, drifting, wrapper=""))
    assert "rank 2 is the odd one" in told.findings[0].message
