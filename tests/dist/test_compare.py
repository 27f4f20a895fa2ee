"""What is wrong is named: whose data is there instead."""

import pytest
import torch

from reefwatch.experiments.dist import codes
from reefwatch.experiments.dist.arena import GUARD, Arena
from reefwatch.experiments.dist.compare import Expected, mover, sums

N = 101
NAMES = (0, 1, 2)


def block(source, slot):
    return codes.payload(N, torch.float32, 5, source, slot)


def told_of_move(got):
    return Expected(got, block(0, 1), mover(block, 3, 3, (0, 1), NAMES)).wrong()


def test_what_is_right_is_right():
    assert told_of_move(block(0, 1)) is None


@pytest.mark.parametrize(
    ("got", "words"),
    [
        (block(2, 1), "holds what rank 2 sent for rank 1"),
        (block(0, 2), "holds what rank 0 sent for rank 2"),
        (torch.roll(block(0, 1), 1), "shifted by 1"),
        (torch.zeros(N), "was never written"),
    ],
)
def test_a_moved_block_is_named(got, words):
    wrong = told_of_move(got)
    assert wrong is not None and words in wrong.why


def test_a_part_of_another_block_is_named_with_its_length():
    got = block(0, 1)
    got[10:20] = block(1, 1)[10:20]
    wrong = told_of_move(got)
    assert wrong.first == 10 and wrong.run == 40 and wrong.count == 10
    assert "rank 1 sent" in wrong.why


def parts(step=0):
    return [codes.addend(N, torch.float32, r, 3, 9, step) for r in range(3)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p, old: (p[0] + p[2]) / 3, "rank 1 is missing"),
        (lambda p, old: (p[0] + 2 * p[1] + p[2]) / 3, "rank 1 is counted twice"),
        (lambda p, old: sum(p), "the sum and not the mean"),
        (lambda p, old: p[2], "never reduced: it is what rank 2 gave"),
        (lambda p, old: sum(old) / 3, "the result of the step before"),
        (lambda p, old: (p[0] + p[1] + old[2]) / 3, "rank 2 gave what it had in the step before"),
        (lambda p, old: (p[0] + p[1] + p[1]) / 3, "rank 1 stands there for rank 2"),
        (lambda p, old: (p[0] + p[1] + 0.5 * p[2]) / 3, "rank 2 was scaled by 0.5"),
        (lambda p, old: p[0] * 0, "was never written"),
    ],
)
def test_a_wrong_mean_is_explained(change, words):
    now, old = parts(), parts(1)
    wide = [p.double() for p in now]
    got = change(wide, [p.double() for p in old])
    explain = sums(wide, NAMES, True, [p.double() for p in old])
    wrong = Expected(got, sum(wide) / 3, explain, torch.zeros(N)).wrong()
    assert wrong is not None and words in wrong.why


def test_a_micro_batch_that_was_not_synchronised_is_named():
    micro = [[p.double() for p in (parts(2)[r], parts(3)[r])] for r in range(3)]
    total = [sum(some) for some in micro]
    got = (sum(total) - micro[1][0]) / 3
    wrong = Expected(got, sum(total) / 3, sums(total, NAMES, True, None, micro), torch.zeros(N))
    assert "micro-batch 0 of rank 1 is missing" in wrong.wrong().why


def test_one_flipped_bit_is_seen_and_nothing_is_made_up():
    want = sum(parts())
    got = want.clone()
    got.view(torch.int32)[7] ^= 1
    wrong = Expected(got, want, sums(parts(), NAMES)).wrong()
    assert (wrong.count, wrong.first) == (1, 7)
    assert wrong.why == ""


@pytest.mark.parametrize("strided", [False, True])
def test_guards_see_a_write_outside(strided):
    arena = Arena(torch.float32, "cpu", strided, 3)
    view = arena.buffer(torch.arange(8.0), "output")
    assert torch.equal(view, torch.arange(8.0)) and not arena.damage()
    view.fill_(5)
    assert not arena.damage()
    base = view._base
    base[GUARD - 1] += 1
    assert "outside of the output, at -1" in arena.damage()


def test_another_shape_is_wrong():
    wrong = Expected(torch.zeros(3), torch.zeros(4)).wrong()
    assert wrong is not None and "(3,)" in wrong.got
