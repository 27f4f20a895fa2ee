"""Products inside compiled code, from the code that Inductor generated."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
import torch

from reefwatch.core.fact import Evidence
from reefwatch.core.record import Record
from reefwatch.gather.instrument import Tools
from reefwatch.gather.precision.examine import Memory
from reefwatch.gather.precision.generated import Generated, Product, products
from reefwatch.judge.engine import judge

DTYPES = {"bfloat16": "bf16", "float32": "f32", "float16": "f16"}
CODE = """
        buf0 = empty_strided_cpu((16, 64), (64, 1), torch.bfloat16)
        buf1 = empty_strided_cpu((64, 64), (64, 1), torch.bfloat16)
        buf3 = empty_strided_cpu((16, 64), (64, 1), torch.bfloat16)
        # Topologically Sorted Source Nodes: [input_1], Original ATen: [aten._to_copy, aten.addmm]
        extern_kernels.addmm(buf2, buf0, reinterpret_tensor(buf1, (64, 64), (1, 64), 0), out=buf3)
        buf4 = buf3; del buf3  # reuse
        buf13 = empty_strided_cpu((16, 8), (8, 1), torch.float32)
        # Topologically Sorted Source Nodes: [z], Original ATen: [aten.t, aten.addmm]
        extern_kernels.addmm(primals_10, buf12, primals_9, alpha=1, beta=1, out=buf13)
        # Topologically Sorted Source Nodes: [c], Original ATen: [aten._to_copy, aten.convolution]
        buf11 = extern_kernels.convolution(buf4, buf8, buf10, stride=(1, 1), groups=1)
        # Topologically Sorted Source Nodes: [c2], Original ATen: [aten.convolution_backward]
        buf9 = torch.ops.aten.convolution_backward.default(buf11, x, w, [8], (1, 1))
        buf20 = torch.ops.mkldnn._linear_pointwise.default(arg0_1, arg1_1, None, 'none', [], '')
        buf21 = torch.ops.aten.sort.stable(buf0)
"""
TEMPLATE = """
@triton_heuristics.template(
    num_stages=3,
    num_warps=4,
    triton_meta={'signature': {'arg_A': '*fp16', 'arg_B': '*fp16', 'out_ptr0': '*fp32'}},
)
@triton.jit
def triton_tem_fused_mm_0(arg_A, arg_B, out_ptr0):
    pass
"""


def test_products_by_the_dtype_of_their_result():
    assert list(products(CODE, DTYPES)) == [
        Product("aten.addmm", "bf16", "input_1"),
        Product("aten.addmm", "f32", "z"),
        Product("aten.convolution", "bf16", "c"),
        Product("aten.convolution_backward", "bf16", "c2"),
        Product("aten.addmm", "unknown", "c2"),
    ]


def test_a_template_has_the_dtype_of_its_first_operand():
    assert list(products(TEMPLATE, DTYPES)) == [
        Product("triton template", "f16", "triton_tem_fused_mm_0")
    ]


def told(monkeypatch: Any, *files: Any) -> Memory:
    """What the instrument says of a process that loaded these files."""
    module = types.ModuleType("torch._inductor.codecache")
    loaded = {str(i): types.SimpleNamespace(__file__=str(f)) for i, f in enumerate(files)}
    module.PyCodeCache = types.SimpleNamespace(modules=loaded)
    monkeypatch.setitem(sys.modules, "torch._inductor.codecache", module)
    memory = Memory()
    one = Generated()
    one.arm(Tools(torch, memory, lambda: 0.0, None, {}))
    one.disarm()
    return memory


def verdict(memory: Memory, claim: str) -> Any:
    memory.fact("claim.precision", Evidence("claim.precision", claim, source="--claim"))
    record = Record({"rank": 0, "world": 1}, memory.facts, tuple(memory.events))
    return next(o for o in judge([record])[0] if o.code == "PREC053")


def test_a_product_in_fp32_inside_compiled_code_is_named(monkeypatch, tmp_path):
    file = tmp_path / "code.py"
    file.write_text(CODE, encoding="utf-8")
    memory = told(monkeypatch, file, tmp_path / "gone.py")
    fact = memory.facts["precision.generated"]
    assert fact.value == {
        "files": 1,
        "read": 1,
        "products": {"bf16": 3, "f32": 1, "unknown": 1},
    }
    (finding,) = verdict(memory, "bf16-mixed").findings
    assert finding.message == "1 of 5 products in compiled code are in f32: addmm (z)"
    (finding,) = verdict(memory, "fp32").findings
    assert finding.message.startswith("3 of 5 products in compiled code are in bf16: addmm")


def test_nothing_is_claimed_of_a_run_that_compiled_nothing(monkeypatch):
    memory = told(monkeypatch)
    assert memory.facts["precision.generated"].value is False
    memory.fact("claim.precision", Evidence("claim.precision", "bf16-mixed", source="--claim"))
    outcomes, unclaimed = judge([Record({"rank": 0, "world": 1}, memory.facts, ())])
    assert "PREC053" not in [o.code for o in outcomes]
    assert "PREC053" in unclaimed


@pytest.mark.filterwarnings("ignore")  # Inductor's own, of torch.jit
def test_what_inductor_really_wrote(monkeypatch):
    """Compiled here: a product under autocast, and one that left it."""
    torch._dynamo.reset()
    w, island = torch.randn(32, 32), torch.randn(32, 8)

    def forward(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            y = x @ w
        z = y.float() @ island
        return z

    from torch._inductor.codecache import PyCodeCache

    before = list(PyCodeCache.modules)
    torch.compile(forward)(torch.randn(16, 32))
    torch._dynamo.reset()
    loaded = PyCodeCache.modules
    new = [m for m in (loaded.values() if isinstance(loaded, dict) else loaded) if m not in before]
    memory = told(monkeypatch, *(m.__file__ for m in new))
    counted = memory.facts["precision.generated"].value["products"]
    assert counted == {"bf16": 1, "f32": 1}
    (finding,) = verdict(memory, "bf16-mixed").findings
    assert finding.message.startswith("1 of 2 products in compiled code are in f32: mm (")
    assert finding.message.endswith("z)")  # versions name the cast before it, or do not
