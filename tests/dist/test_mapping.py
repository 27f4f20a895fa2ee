"""Ranks and cards: pure rows in, words out."""

import pytest

from reefwatch.judge.dist_mapping import problems, unlike


def rank(number, slot="", host="a", **more):
    card = {"index": number, "current": number, "slot": slot, "uuid": "", "arch": "gfx1100"}
    row = {"rank": number, "local_rank": number, "host": host, "devices": 2, "masks": {}}
    return {**row, "card": card, **more}


def words(*ranks):
    return [told for told, _, _ in problems(ranks)]


def test_a_card_for_each_is_fine():
    assert not words(rank(0, "0000:03:00"), rank(1, "0000:83:00"))


def test_two_ranks_on_one_card():
    assert "ranks 0, 1 share one card" in words(rank(0, "0000:03:00"), rank(1, "0000:03:00"))[0]


def test_the_same_address_on_two_hosts_is_two_cards():
    assert not words(rank(0, "0000:03:00"), rank(1, "0000:03:00", host="b"))


@pytest.mark.parametrize(
    ("masks", "said"),
    [
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1"}, "counts what the first leaves"),
        ({"ROCR_VISIBLE_DEVICES": "0,1", "CUDA_VISIBLE_DEVICES": "1"}, "counts what the first"),
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"}, "differ"),
    ],
)
def test_masks_that_mean_another_card(masks, said):
    assert any(said in told for told in words(rank(0, masks=masks)))


def test_the_same_full_mask_twice_hides_nothing():
    masks = {"ROCR_VISIBLE_DEVICES": "0,1", "HIP_VISIBLE_DEVICES": "0,1"}
    assert not words(rank(0, masks=masks))


def test_one_card_each_is_fine_and_anything_else_is_not():
    def masked(*values):
        return [
            rank(n, masks={"HIP_VISIBLE_DEVICES": v} if v else {}) for n, v in enumerate(values)
        ]

    assert not words(*masked("0", "1"))
    assert not words(*masked("0,1", "0,1"))
    assert "differs among the ranks" in words(*masked("0", "0,1"))[0]
    assert "not set" in words(*masked("0", None))[0]


def test_more_ranks_than_cards():
    row = rank(0, local_rank=2, devices=2)
    assert any("LOCAL_RANK 2 with 2 cards" in told for told in words(row))


def test_the_wrong_current_device():
    row = rank(1)
    row["card"]["current"] = 0
    assert any("the current device is 0, the rank's is 1" in told for told in words(row))


def test_versions_and_cards_that_differ():
    ranks = [rank(0, torch="2.13.0"), rank(1, torch="2.12.0"), rank(2, torch="2.13.0")]
    told = list(unlike(ranks))
    assert told == [("torch differs: 2.13.0 on ranks 0, 2; 2.12.0 on rank 1", (1,))]
