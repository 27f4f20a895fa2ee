"""Functions of `triton.language.extra.libdevice` for Triton's interpreter, which has none.

Computed in f64 and rounded to the dtype of the first tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "fabs": np.abs, "acos": np.arccos, "asin": np.arcsin, "atan": np.arctan,
    "atan2": np.arctan2, "ceil": np.ceil, "cos": np.cos, "cosh": np.cosh, "exp": np.exp,
    "exp2": np.exp2, "expm1": np.expm1, "floor": np.floor, "fmod": np.fmod, "log": np.log,
    "log10": np.log10, "log1p": np.log1p, "log2": np.log2, "pow": np.power, "rint": np.rint,
    "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan, "tanh": np.tanh,
    "trunc": np.trunc, "fast_expf": np.exp, "fast_logf": np.log, "fast_tanhf": np.tanh,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "isnan": np.isnan, "isinf": np.isinf,
}  # fmt: skip


def known(name: str) -> bool:
    """Is there such a function here?"""
    return name in _FUNCTIONS


def function(name: str) -> Callable[..., Any]:
    """A function of libdevice on the interpreter's tensors."""

    def call(*args: Any, **kwargs: Any) -> Any:
        import triton.language as tl
        from triton.runtime.interpreter import TensorHandle

        first = next(one for one in args if hasattr(one, "handle"))
        wide = [np.asarray(getattr(getattr(one, "handle", one), "data", one)) for one in args]
        with np.errstate(all="ignore"):
            made = _FUNCTIONS[name](*(value.astype(np.float64) for value in wide))
        if name in ("isnan", "isinf"):
            kind = tl.int32
            return tl.tensor(TensorHandle(np.asarray(made).astype(np.int32), kind), kind)
        data = np.asarray(made).astype(first.handle.data.dtype)
        return tl.tensor(TensorHandle(data, first.handle.dtype), first.type)

    return call


class Module:
    """The module, with what is here in place of what the interpreter cannot run."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return function(name) if known(name) else getattr(self._module, name)
