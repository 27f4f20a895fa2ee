"""Data that tells where it comes from, and sums that no order can change."""

import itertools

import pytest
import torch

from reefwatch.data import collectives
from reefwatch.experiments.dist import codes, forms


def test_names_of_the_command_line_are_those_of_the_experiment():
    assert collectives.DTYPES == codes.DTYPES
    assert set(collectives.FORMS) == set(forms.FORMS)


@pytest.mark.parametrize("name", [n for n in codes.DTYPES if "float8" not in n])
@pytest.mark.parametrize("world", [2, 3, 4, 5])
def test_the_sum_is_the_same_bits_in_any_order(name, world):
    dtype = codes.dtype_of(name)
    parts = [codes.addend(97, dtype, r, world, 7) for r in range(world)]
    want = codes.reduced("SUM", parts)
    for order in itertools.permutations(range(world)):
        total = parts[order[0]].clone()
        for rank in order[1:]:
            total = (total | parts[rank]) if dtype == torch.bool else total + parts[rank]
        assert torch.equal(total, want)


@pytest.mark.parametrize("world", [300, 1000])
def test_many_ranks_have_sums_that_bf16_holds(world):
    parts = [codes.addend(64, torch.bfloat16, r, world, 3) for r in range(world)]
    exact = torch.stack([p.double() for p in parts]).sum(0)
    running = parts[0].clone()
    for part in parts[1:]:
        running = running + part
    assert torch.equal(running.double(), exact)
    assert exact.abs().max() > 1


@pytest.mark.parametrize("name", codes.DTYPES)
def test_a_payload_goes_through_its_dtype_unchanged(name):
    dtype = codes.dtype_of(name)
    values = codes.payload(500, dtype, 1, 2)
    wide = values.to(torch.complex128 if dtype.is_complex else torch.float64)
    if name != "int64":  # float64 does not hold all of them
        assert torch.equal(wide.to(dtype), values) or dtype == torch.bool
    others = codes.payload(500, dtype, 2, 2)
    assert not torch.equal(values.view(torch.uint8), others.view(torch.uint8))


def test_a_product_is_exact_for_any_world():
    for world in (2, 3, 7):
        parts = [codes.factor(64, torch.float16, r, world, 5) for r in range(world)]
        assert set(codes.reduced("PRODUCT", parts).abs().tolist()) == {2.0}


def test_no_mean_of_integers_is_expected():
    parts = [codes.addend(4, torch.int32, r, 2, 5) for r in range(2)]
    assert codes.reduced("AVG", parts) is None
