"""Gates and flags: what was chosen, why, and that looking changes nothing."""

from __future__ import annotations

import sys
import types
import warnings
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from reefwatch.core.fact import Evidence
from reefwatch.core.record import Record
from reefwatch.gather.instrument import Tools
from reefwatch.gather.ops import OpLayer
from reefwatch.gather.precision import attention, gates
from reefwatch.gather.precision.attention import Attention
from reefwatch.gather.precision.examine import Memory
from reefwatch.gather.precision.gates import Gates
from reefwatch.judge.engine import judge


def seen(step: Any, *instruments: Any) -> Memory:
    """What the instruments say of one examined call of `step`."""
    memory = Memory()
    tools = Tools(torch, memory, lambda: 0.0, None, {})
    for one in instruments:
        one.arm(tools)
    layer = OpLayer(tools, list(instruments))
    layer.enter(0)
    try:
        step()
    finally:
        layer.leave()
    for one in instruments:
        one.close(0)
        one.disarm()
    return memory


def rows(memory: Memory) -> list[Any]:
    return [event.data for event in memory.events if event.kind == "precision.attention"]


def qkv(dtype: torch.dtype = torch.float32, length: int = 32) -> list[torch.Tensor]:
    return [torch.randn(2, 4, length, 16, dtype=dtype) for _ in range(3)]


def test_a_fused_path_is_one_row():
    q, k, v = qkv()
    (row,) = rows(seen(lambda: F.scaled_dot_product_attention(q, k, v), Attention()))
    assert (row["path"], row["q"], row["dtype"], row["calls"]) == (
        "flash",
        [2, 4, 32, 16],
        "f32",
        1,
    )
    assert row["reasons"] == []


def test_dropout_sends_the_cpu_to_the_math_path_and_the_reason_is_told():
    q, k, v = qkv()

    def step() -> None:
        for _ in range(3):
            F.scaled_dot_product_attention(q, k, v, dropout_p=0.2)

    memory = seen(step, Attention())
    (row,) = rows(memory)
    assert (row["path"], row["calls"], row["dropout"], row["mask"]) == ("math", 3, True, "")
    assert row["q"] == row["k"] == [2, 4, 32, 16]
    assert row["choice"] == "math"  # as torch itself says
    assert row["reasons"] == ["dropout is on, and the CPU's kernel has none"]
    assert memory.facts["precision.attention"].value == {"math": 3}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_forced_math_path_keeps_the_dtype_of_the_operands(dtype):
    q, k, v = qkv(dtype)

    def step() -> None:
        with sdpa_kernel([SDPBackend.MATH]):
            for _ in range(2):
                F.scaled_dot_product_attention(q, k, v, is_causal=True)

    (row,) = rows(seen(step, Attention()))
    assert row["calls"] == 2
    assert row["dtype"] == {torch.bfloat16: "bf16", torch.float16: "f16"}[dtype]
    assert (row["causal"], row["mask"], row["dropout"]) == (True, "", False)


def test_the_dtype_of_a_mask():
    q, k, v = qkv()
    mask = torch.zeros(32, 32)

    def step() -> None:
        with sdpa_kernel([SDPBackend.MATH]):
            F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    (row,) = rows(seen(step, Attention()))
    assert row["mask"] == "f32"


def test_products_around_a_softmax_are_not_taken_for_attention():
    q, k, v = qkv()

    def step() -> torch.Tensor:
        return (q @ k.transpose(-1, -2)).softmax(-1) @ v

    memory = seen(step, Attention())
    assert rows(memory) == []
    fact = memory.facts["precision.attention"]
    assert isinstance(fact, Evidence)
    assert fact.value is False


def test_the_place_is_the_users_line():
    q, k, v = qkv()

    def step() -> None:
        F.scaled_dot_product_attention(q, k, v, dropout_p=0.2)

    (row,) = rows(seen(step, Attention()))
    assert row["file"] == __file__
    assert row["line"] == step.__code__.co_firstlineno + 1


def test_looking_changes_neither_results_nor_random_state_nor_warnings():
    q, k, v = qkv()

    def run(*instruments: Any) -> tuple[Any, ...]:
        torch.manual_seed(3)
        out: list[torch.Tensor] = []
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("default")
            step = lambda: out.append(F.scaled_dot_product_attention(q, k, v, dropout_p=0.2))  # noqa: E731
            if instruments:
                seen(step, *instruments)
            else:
                step()
            filters = list(warnings.filters)
        return out[0], torch.get_rng_state(), [str(one.message) for one in told], filters

    plain, watched = run(), run(Attention(), Gates())
    assert torch.equal(plain[0], watched[0])
    assert torch.equal(plain[1], watched[1])
    assert plain[2:] == watched[2:]


def test_reasons_that_the_operands_show():
    row = {"device": "cuda", "dtype": "bf16", "mask": "f32", "q": [1, 8, 64, 20], "dropout": False}
    assert attention.known_reasons(row) == [
        "there is a mask, which flash does not take",
        "the mask is f32, q is bf16: memory-efficient wants one dtype",
        "head size 20 is no multiple of 8",
    ]
    told = attention.known_reasons({**row, "dtype": "f32", "mask": "", "q": [1, 8, 64, 64]})
    assert told == ["q is f32: flash takes 16 bits only (autocast off?)"]


def test_the_check_names_long_attention_and_leaves_short_alone():
    def judged(length: int) -> Any:
        q, k, v = qkv(length=length)
        memory = seen(lambda: F.scaled_dot_product_attention(q, k, v, dropout_p=0.2), Attention())
        told = {"steps": 1, "steps_of": 1, "modules_seen": 0, "modules_total": 0}
        memory.fact("precision.ops", Evidence("precision.ops", told))
        record = Record({}, memory.facts, tuple(memory.events))
        return next(o for o in judge([record])[0] if o.code == "PREC048")

    assert judged(16).findings == ()
    (finding,) = judged(128).findings
    assert finding.message == "attention of 128 queries and 128 keys in f32 took the math path"
    assert finding.why == "dropout is on, and the CPU's kernel has none"


# -- BLAS, flags, environment -----------------------------------------------------------------


def test_on_the_cpu_no_claim_is_made_about_a_gpus_library():
    a = torch.randn(4, 4)
    memory = seen(lambda: a @ a, Gates())
    fact = memory.facts["precision.blas"]
    assert (fact.value, fact.source) == (False, "no product on a GPU was seen")
    flags = memory.facts["precision.gates"].value["flags"]
    assert flags["matmul.fp16_accumulation"] is False
    assert flags["sdp.math"] is True


def test_a_flag_that_was_on_once_stays_on_and_one_that_raises_is_its_error():
    first = gates.flags(torch, {})
    assert gates.flags(torch, {**first, "cudnn.benchmark": True})["cudnn.benchmark"] is True

    class Mixed:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("you have used both APIs")

    odd = types.SimpleNamespace(backends=types.SimpleNamespace(cuda=torch.backends.cuda))
    odd.backends.cudnn = odd.backends.miopen = Mixed()
    assert gates.flags(odd, {})["cudnn.benchmark"] == "RuntimeError"
    assert gates.flags(odd, {})["miopen.immediate"] == "RuntimeError"


def test_the_environment_that_chooses_kernels(monkeypatch):
    monkeypatch.setenv("MIOPEN_FIND_MODE", "FAST")
    monkeypatch.setenv("TORCH_BLAS_PREFER_HIPBLASLT", "1")
    monkeypatch.setenv("MIOPENISH", "no")
    gate = Gates()
    memory = seen(lambda: None, gate)
    environ = memory.facts["precision.gates"].value["environment"]
    assert environ["MIOPEN_FIND_MODE"] == "FAST"
    assert "MIOPENISH" not in environ
    assert gates.wanted(environ) == "cublaslt"
    assert gates.wanted({"TORCH_BLAS_PREFER_HIPBLASLT": "0"}) == "cublas"
    assert gates.wanted({}) == ""


def test_warnings_that_were_shown_are_found_without_being_caught(monkeypatch):
    module = types.ModuleType("shown_one")
    text = "Attempting to use hipBLASLt on an unsupported architecture! (Triggered internally at x)"
    module.__warningregistry__ = {"version": 3, (text, UserWarning, 1): True}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shown_one", module)
    assert "Attempting to use hipBLASLt on an unsupported architecture!" in gates.warned()
