"""Tensors without a storage do not stop the audit."""

from __future__ import annotations

import warnings

import pytest
import torch

from reefwatch.gather.precision.examine import examine


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_sparse_operands_and_results_are_told(layout):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls its CSR support a beta

        def step():
            dense = torch.eye(4)
            made = dense.to_sparse() if layout == "coo" else dense.to_sparse_csr()
            (made @ torch.ones(4, 2)).sum()
            made * 2.0

        record = examine(step, claim="fp32")
    assert not [name for name in record.facts if name.startswith("errored")]
    assert record.facts["precision.ops"].value["ops"] > 2
