"""What kernel names tell: every labelled name, and how the rules behave on odd ones."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefwatch.data import entry, kernels, table

TABLES = Path(__file__).parents[1] / "data" / "kernel_names"
FIELDS = ("compute_dtype", "matrix_core", "naive")
DTYPES = {"bf16", "fp16", "fp32", "tf32", "fp64", "fp8", "int8", "mixed", "unknown"}
LIBRARIES = {
    *("tensile", "hipblaslt", "miopen", "ck", "aotriton", "triton", "aten", "cublas", "cudnn"),
    *("cutlass", "flash", "nccl", "rccl", "other"),
}
# words of the first table, made before the list of libraries was settled
OLD_WORDS = {"inductor": "triton", "cutlass_fmha": "cutlass", "aiter": "other", "c64": "unknown"}


def labelled(lines: list[str]) -> Iterator[dict[str, str]]:
    kept = (line for line in lines if not line.startswith("#"))
    for row in csv.DictReader(kept, delimiter="\t", quoting=csv.QUOTE_NONE):
        yield {key: OLD_WORDS.get(value, value) for key, value in row.items()}


def rows(name: str) -> list[dict[str, str]]:
    if name == "kernel_names":
        text = entry("kernel_names.tsv").read_text(encoding="utf-8")
    else:
        text = (TABLES / f"{name}.tsv").read_text(encoding="utf-8")
    return list(labelled(text.splitlines()))


def wrong(row: dict[str, str]) -> list[str]:
    """Fields that are confidently other than the label."""
    told = kernels.classify(row["name"]).as_dict()
    return [
        f"{field}: {row[field]} is told to be {told[field]}: {row['name'][:120]}"
        for field in FIELDS
        if told[field] not in (row[field], "unknown")
    ]


def is_right(row: dict[str, str]) -> bool:
    told = kernels.classify(row["name"]).as_dict()
    return all(told[field] == row[field] for field in FIELDS)


def test_the_first_table_is_right_without_an_error():
    table = rows("kernel_names")
    assert len(table) == 108
    assert [error for row in table for error in wrong(row)] == []
    assert all(is_right(row) for row in table)
    assert [r["name"] for r in table if kernels.classify(r["name"]).library != r["library"]] == []


@pytest.mark.parametrize("name", [file.stem for file in sorted(TABLES.glob("*.tsv"))])
def test_names_from_elsewhere(name):
    table = rows(name)
    assert len(table) > 80
    assert [error for row in table for error in wrong(row)] == []
    assert sum(map(is_right, table)) >= 0.95 * len(table)


def test_the_labels_agree_with_the_op_that_launched_the_kernel():
    """A copy between dtypes and a promotion have two; kernels that only move data have none."""
    checked = 0
    for row in (*rows("tracelens"), *rows("hta")):
        if row["op_dtype"] in ("", "mixed") or row["compute_dtype"] in ("unknown", "mixed"):
            continue
        checked += 1
        told = {row["compute_dtype"], "fp32" if row["compute_dtype"] == "tf32" else ""}
        assert row["op_dtype"] in told, row["name"]
    assert checked > 100


def test_what_ran_on_a_card_is_read_as_it_was_called():
    """The dtype of these is known by construction; statistics of a batch norm are kept in fp32."""
    checked = 0
    for row in (*rows("h200"), *rows("h200_more")):
        if row["op_dtype"] in ("", "mixed", "unknown") or row["compute_dtype"] == "unknown":
            continue
        checked += 1
        told = kernels.classify(row["name"]).compute_dtype
        of_call = {row["op_dtype"], "fp32" if row["op_dtype"] == "tf32" else ""}
        assert told in of_call or "batch_norm_update_stats" in row["name"], row["name"]
    assert checked > 1200


def test_only_known_words_are_said():
    for family in kernels.families():
        for says in (family.says, *(rule.says for rule in family.rules)):
            assert says.get("library", "other") in LIBRARIES, family.name
            assert says.get("compute_dtype", "unknown") in DTYPES, family.name
            assert says.get("accumulate_dtype", "unknown") in DTYPES | {"int32"}, family.name
            assert says.get("matrix_core", "unknown") in ("yes", "no", "unknown"), family.name
            assert says.get("naive", "unknown") in ("yes", "no", "unknown"), family.name


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("Cijk_Ailk_Bljk_HBH_MT64x64x16_SN_ISA906_KLA", "accumulate_dtype", "fp32"),
        ("Cijk_Ailk_Bljk_HB_MT64x64x16_SN_ISA906_KLA", "accumulate_dtype", "fp16"),
        ("Cijk_Ailk_Bljk_DB_MT64x64x16_MI16x16x4x1_SN_ISA90a", "compute_dtype", "fp64"),
        ("nvjet_hhh_128x128_64x4_1x2_h_bz_TNT", "accumulate_dtype", "fp16"),
        ("ampere_h16816gemm_128x128_ldg8_stages_32x5_nn", "accumulate_dtype", "fp16"),
        ("cutlass_80_tensorop_d884gemm_64x64_16x4_nn_align1", "compute_dtype", "fp64"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)", "library", "nccl"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "compute_dtype", "unknown"),
        ("triton_tem_fused_mm_0", "matrix_core", "unknown"),
        ("kernel_grouped_conv_bwd_weight_naive", "naive", "yes"),
        ("cutlass_tensorop_h1688fprop_optimized_64x64_32x2_nhwc_align8", "compute_dtype", "fp16"),
        (
            "_ZN7cutlass7Kernel2I43cutlass_80_simt_sgemm_256x128_8x4_nn_align1EEvNT_6ParamsE",
            "matrix_core",
            "no",
        ),
        ("_Z20softmax_warp_forwardIN3c108BFloat16ES1_fLi9ELb0ELb0EEvPT0_", "compute_dtype", "bf16"),
        ("_Z40fmha_cutlassF_f32_aligned_64x128_rf_sm80N22PyTorchMemEff", "compute_dtype", "fp32"),
        (
            "_ZN2at6native12_GLOBAL__N_128vectorized_layer_norm_kernelIN3c108BFloat16EfLb1EEEviT0_",
            "compute_dtype",
            "bf16",
        ),
        (
            "_ZN2at6native9templates4cuda21uniform_and_transformIN3c104HalfEfPNS_17CUDAGeneratorImpl"
            "EZZZNS2_16bernoulli_kernelIS7_EEvRNS_18TensorIteratorBaseEdT_ENKUlvE_clEvEUlfE_EEv",
            "compute_dtype",
            "fp16",
        ),
        ("miopenSp3AsmConvFury_v2_4_1_gfx11_fp16_fp16acc_f2x3_c16", "accumulate_dtype", "fp16"),
        ("naive_conv_ab_nonpacked_wrw_nchw_float_double_float.kd", "accumulate_dtype", "fp64"),
    ],
)  # fmt: skip
def test_one_field(name, field, value):
    assert kernels.classify(name).as_dict()[field] == value


@given(st.text(max_size=200))
def test_any_text_has_an_answer(text):
    told = kernels.classify(text)
    assert told.name == text
    assert told.library in LIBRARIES
    assert told.compute_dtype in DTYPES


@pytest.mark.parametrize("odd", ["", "   ", "a" * 100_000, "<" * 5000, "Cijk_" + "_MT1x1x1" * 5000])
def test_odd_names_are_answered_at_once(odd):
    assert kernels.classify(odd).naive in ("yes", "no", "unknown")


def test_an_unknown_kernel_is_unknown():
    told = kernels.classify("my_own_kernel(float*, int)").as_dict()
    assert told["library"] == "other"
    assert {told[field] for field in FIELDS} == {"unknown"}


def test_a_malformed_rule_is_refused_by_name():
    sound = dict(table("kernel_rules.toml"))
    with pytest.raises(ValueError, match=r"kernel rules, broken: .*unterminated"):
        kernels.build({**sound, "family": [{"name": "broken", "match": "[a"}]})
    with pytest.raises(ValueError, match="kernel rules, odd: colour is no field"):
        kernels.build({**sound, "family": [{"name": "odd", "match": "a", "colour": "red"}]})
