"""The survey set: 29 Triton kernels and how each is compiled for an AMD target without a card."""

from __future__ import annotations

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from . import elementwise, movement, products, rows

SPECS = {**elementwise.SPECS, **rows.SPECS, **products.SPECS, **movement.SPECS}
WAVE = {"gfx942": 64}


def build(name: str, target: str = "gfx1100", warps: int = 4):
    """The compiled kernel: `.asm["amdgcn"]` is the program, `.metadata.shared` its LDS bytes."""
    kernel, signature, constants = SPECS[name]
    kinds = {arg: signature.get(arg, "constexpr") for arg in kernel.arg_names}
    attrs = {
        (at,): [["tt.divisibility", 16]]
        for at, arg in enumerate(kernel.arg_names)
        if kinds[arg].startswith("*")
    }
    source = ASTSource(kernel, signature=kinds, constexprs=dict(constants), attrs=attrs)
    on = GPUTarget("hip", target, WAVE.get(target, 32))
    return triton.compile(source, target=on, options={"num_warps": warps})
