"""The rule by which compiled tensors are compared, and what is copied for a call."""

from __future__ import annotations

import pytest
import torch

from reefwatch.gather.compiled import compare
from reefwatch.gather.compiled.copies import Copies
from reefwatch.gather.compiled.trial import RANDOM, Rules, Trial, judge_again
from reefwatch.gather.compiled.world import World

EPS = torch.finfo(torch.float32).eps


def told(compiled, eager, truth=None):
    return compare.tensor("output", compiled, eager, truth)


def test_rounding_passes_and_one_wrong_element_does_not():
    torch.manual_seed(0)
    truth = torch.randn(100_000, dtype=torch.float64)
    eager = truth.float()
    near = eager * (1 + 2 * EPS)
    assert told(near, eager, truth) is None
    off = near.clone()
    off[77] += 1e-3
    found = told(off, eager, truth)
    assert found.kind == "value"
    assert found.at == (77,)
    assert found.wrong == 1


def test_a_gradient_in_float32_that_came_through_bfloat16():
    torch.manual_seed(0)
    truth = torch.randn(20_000, dtype=torch.float64)
    unit = torch.finfo(torch.bfloat16).eps
    eager = (truth * (1 + unit * torch.randn_like(truth))).float()
    other = (truth * (1 + unit * torch.randn_like(truth))).float()
    inside = {"inside": unit}
    assert compare.tensor("gradient", other, eager, truth, **inside) is None
    assert compare.tensor("gradient", 1.2 * other, eager, truth, **inside) is not None


def test_an_error_of_the_original_is_allowed_to_compiled_code():
    truth = torch.linspace(1, 2, 50, dtype=torch.float64)
    eager = (truth + 1e-4).float()
    assert told((truth - 2e-4).float(), eager, truth) is None
    assert told((truth - 2e-3).float(), eager, truth) is not None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_must_agree(value):
    eager = torch.tensor([1.0, value, 2.0])
    assert told(eager.clone(), eager) is None
    assert told(torch.tensor([1.0, 3.0, 2.0]), eager).kind == "nan"


def test_integers_count_where_float64_agrees_with_the_original():
    eager, truth = torch.tensor([1, 2, 3]), torch.tensor([1, 2, 4])
    assert told(torch.tensor([1, 2, 9]), eager, truth) is None
    assert told(torch.tensor([1, 9, 3]), eager, truth).kind == "integer"


def test_other_shapes_and_dtypes_are_told():
    assert told(torch.ones(3), torch.ones(1, 3)).kind == "shape"
    assert told(torch.ones(3), torch.ones(3).half()).kind == "dtype"


def test_empty_and_complex_tensors():
    assert told(torch.ones(0, 3), torch.ones(0, 3)) is None
    eager = torch.tensor([1 + 2j, 3 - 1j])
    assert told(eager.clone(), eager) is None
    assert told(eager.conj().resolve_conj(), eager) is not None


def test_ties_under_noise_are_inconclusive_and_a_wrong_index_is_not():
    def index(x):
        return (x * 1.1).argmax(-1)

    ties = torch.tensor([[1.0, 1.0 + EPS, 0.0], [1.0 + EPS, 1.0, 0.0]])
    for wrong, verdict in ((0, "inconclusive"), (2, "differences")):
        trial = Trial(index, (ties,), {})
        found = judge_again(trial, lambda x, w=wrong: torch.full((2,), w), Rules(), ())
        assert getattr(found, verdict), (wrong, found)


def test_views_of_one_storage_stay_views_of_one_storage():
    base = torch.arange(12.0)
    left, right = base[:8], base[4:].view(2, 4)
    copies = Copies()
    a, b = copies.of(left), copies.of(right)
    a[4] = 99
    assert b[0, 0] == 99
    assert base[4] == 4
    assert copies.of(left) is a


def test_draws_are_replayed_in_float64():
    def noisy(x):
        return torch.dropout(x, 0.5, True) + torch.rand_like(x)

    trial = Trial(noisy, (torch.ones(2000),), {})
    eager = trial.run(noisy, (RANDOM,))
    truth = trial.truth(eager, (RANDOM,))
    assert truth is not None, trial.truth_reason
    assert torch.allclose(truth.tensors["output"].float(), eager.tensors["output"])


def test_a_call_leaves_everything_as_it_was():
    class Counter:
        total = 0

    kept = {"rows": [torch.zeros(2)], "counter": Counter()}

    def call(x):
        kept["rows"].append(x * 2)
        kept["counter"].total += 1
        kept["rows"][0].add_(1)
        return x.mul_(3)

    given = torch.ones(2, requires_grad=False)
    trial = Trial(call, (given,), {})
    state = torch.get_rng_state()
    found = trial.run(call)
    assert torch.equal(torch.get_rng_state(), state)
    assert len(kept["rows"]) == 1
    assert kept["counter"].total == 0
    assert torch.equal(kept["rows"][0], torch.zeros(2))
    assert torch.equal(given, torch.ones(2))
    assert given._version == 0
    assert torch.equal(found.tensors["args[0] afterwards"], torch.full((2,), 3.0))


def test_a_world_names_what_cannot_be_called_twice():
    assert "iterator" in World(lambda: None, (iter([1]),), {}).outside[0]
    assert World(lambda: None, (torch.ones(1), [2], {"a": 3}), {}).outside == []
