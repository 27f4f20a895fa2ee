"""Triton kernels by their machine code: excerpts of what Triton 3.9 compiled for these targets."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from reefwatch.core.errors import UsageError
from reefwatch.data import instructions, kernels
from reefwatch.gather.precision.triton_cache import Cache

CODE = Path(__file__).parents[1] / "data" / "triton"
EXPECTED = {
    "gfx1100-dot-bf16": ("bf16", "fp32", "yes"),
    "gfx1100-dot-f16": ("fp16", "fp32", "yes"),
    "gfx1100-dot-f32": ("fp32", "fp32", "no"),
    "gfx1100-dot-f64": ("fp64", "fp64", "no"),
    "gfx1100-dot-i8": ("int8", "int32", "yes"),
    "gfx1100-dot-f8E4M3FN": ("fp16", "fp32", "yes"),  # no fp8 unit: computed in fp16
    "gfx1100-silu-bf16": ("unknown", "unknown", "no"),
    "gfx942-dot-bf16": ("bf16", "fp32", "yes"),
    "gfx942-dot-f32": ("tf32", "fp32", "yes"),  # xf32, without being asked
    "gfx942-dot_ieee-f32": ("fp32", "fp32", "yes"),
    "gfx942-dot-f64": ("fp64", "fp64", "yes"),
    "gfx942-dot-i8": ("int8", "int32", "yes"),
    "gfx942-silu-bf16": ("unknown", "unknown", "no"),
    "sm_80-dot-bf16": ("bf16", "fp32", "yes"),
    "sm_80-dot-f16": ("fp16", "fp32", "yes"),
    "sm_80-dot-f32": ("tf32", "fp32", "yes"),
    "sm_80-dot_ieee-f32": ("fp32", "fp32", "no"),
    "sm_80-dot-i8": ("int8", "int32", "yes"),
    "sm_80-silu-bf16": ("unknown", "unknown", "no"),
    "sm_90-dot-bf16": ("bf16", "fp32", "yes"),
    "sm_90-dot-f32": ("tf32", "fp32", "yes"),
    "sm_90-dot-f8E4M3FN": ("fp8", "fp32", "yes"),
    "sm_90-dot_ieee-f32": ("fp32", "fp32", "no"),
}


def alone(tmp_path: Path, *folders: str) -> Cache:
    for folder in folders:
        shutil.copytree(CODE / folder, tmp_path / folder)
    return Cache(tmp_path)


@pytest.mark.parametrize("folder", sorted(EXPECTED))
def test_machine_code_decides(tmp_path, folder):
    cache = alone(tmp_path, folder)
    name = next(iter(cache.kernels))
    told = cache.decide(kernels.classify(name))
    assert (told.compute_dtype, told.accumulate_dtype, told.matrix_core) == EXPECTED[folder]
    assert told.library == "triton"


def test_one_name_with_different_code_stays_unknown(tmp_path):
    cache = alone(tmp_path, "gfx1100-dot-bf16", "gfx1100-dot-f32")
    told = cache.decide(kernels.classify("dot_kernel"))
    assert (told.compute_dtype, told.matrix_core, told.accumulate_dtype) == (
        "unknown",
        "unknown",
        "fp32",
    )


def test_what_was_compiled_for_another_card_is_left_out(tmp_path):
    cache = alone(tmp_path, "gfx1100-dot-bf16", "sm_80-dot-f32")
    assert cache.decide(kernels.classify("dot_kernel"), "amd").compute_dtype == "bf16"
    assert cache.decide(kernels.classify("dot_kernel"), "nvidia").compute_dtype == "tf32"


def test_other_kernels_are_left_as_they_are(tmp_path):
    cache = alone(tmp_path, "gfx1100-dot-bf16")
    assert cache.decide(kernels.classify("attn_fwd")) == kernels.classify("attn_fwd")


def test_a_cache_in_use_is_read_as_far_as_it_goes(tmp_path):
    cache = alone(tmp_path, "gfx1100-dot-bf16")
    assert list(cache.kernels) == ["dot_kernel"]
    (tmp_path / "gfx1100-dot-bf16" / "dot_kernel.json").write_text("{half")
    (tmp_path / "gfx1100-dot-bf16" / "other.ptx").write_bytes(b"\xff\xfe")
    assert sorted(Cache(tmp_path).kernels) == ["dot_kernel", "other"]


def test_a_folder_that_is_none(tmp_path):
    with pytest.raises(UsageError, match="is no folder"):
        Cache(tmp_path / "no")


@pytest.mark.parametrize(
    ("line", "dtype", "acc"),
    [
        ("v_mfma_f32_32x32x8f16 a[0:15], v0, v1, a[0:15]", "fp16", "fp32"),
        ("v_mfma_f32_32x32x8_bf16_1k v[0:15], v[16:17], v[18:19], v[0:15]", "bf16", "fp32"),
        ("v_mfma_i32_32x32x8i8 a[0:15], v0, v1, a[0:15]", "int8", "int32"),
        ("v_mfma_f32_16x16x32_fp8_fp8 v[0:3], v[4:5], v[6:7], v[0:3]", "fp8", "fp32"),
        ("v_wmma_f16_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]", "fp16", "fp16"),
        ("v_swmmac_f32_16x16x32_bf16 v[0:7], v[8:11], v[12:19], v20", "bf16", "fp32"),
        ("v_smfmac_f32_16x16x32_f16 v[0:3], v[4:5], v[6:9], v10", "fp16", "fp32"),
        ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r1}, {%r2};", "fp16", "fp16"),
    ],
)
def test_one_instruction(line, dtype, acc):
    code = instructions.read("\t" + line)
    assert (code.compute_dtype, code.accumulate_dtype, code.matrix_core) == (dtype, acc, "yes")


def test_a_vector_dot_product_is_no_matrix_instruction():
    code = instructions.read("\tv_dot2_f32_f16 v0, v1, v2, v0\n", "tt.dot")
    assert (code.compute_dtype, code.accumulate_dtype, code.matrix_core) == ("fp16", "fp32", "no")
