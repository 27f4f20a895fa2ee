"""The survey kernels launched through Triton's own door, each against its exact values.

Run by `reefwatch kernels`. SURVEY_WARPS in the environment is the number of warps (4).
"""

import os
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))
import cases
import survey

WARPS = int(os.environ.get("SURVEY_WARPS", "4"))
TARGET = os.environ.get("SURVEY_TARGET", "gfx1100")


def tensor(array, kind):
    if kind == "*bf16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def numpy(value):
    if value.dtype is torch.bfloat16:
        return value.view(torch.int16).numpy().view(np.uint16)
    return value.numpy()


def launched(name):
    kernel, signature, constants = survey.SPECS[name]
    case = cases.CASES[name](np.random.default_rng(5))
    pairs = zip(case.args, signature.values(), strict=True)
    args = [tensor(a, k) if isinstance(a, np.ndarray) else a.value for a, k in pairs]
    kernel[case.grid](*args, **constants, num_warps=WARPS)
    arrays = [one for one in args if isinstance(one, torch.Tensor)]
    share = cases.worst(case, numpy(arrays[case.out]), TARGET)
    assert share <= 1, f"{name}: error {share:.2f} times the bound"


def _test(name):
    def test():
        launched(name)

    return test


for _name in (
    os.environ.get("SURVEY_ONLY", "").split(",") if os.environ.get("SURVEY_ONLY") else (cases.CASES)
):
    globals()[f"test_{_name}"] = _test(_name)


def test_count():
    assert len(cases.CASES) >= 29
