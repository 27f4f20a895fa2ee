"""Functions of single elements, judged in units of the last place; large tensors are sampled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from reefwatch.gather.numerics.formula import FORMULAS, Inputs, Truth, spread
from reefwatch.measure.rounding import UNIT, last_place

MOST = 1 << 16
"""Elements of one tensor that are judged at a time."""

# name: (function of numpy and float64 arrays, units in the last place of the inner dtype that a
# kernel may be off beyond its own rounding). Kernels' own promises: CUDA C++ Programming Guide,
# "Mathematical Functions", maximum ulp error of single precision; SLEEF's are 1.0 or better.
_UNARY: dict[str, tuple[Callable[[Any, Any], Any], float]] = {
    "abs": (lambda xp, x: xp.abs(x), 0),
    "neg": (lambda xp, x: -x, 0),
    "relu": (lambda xp, x: xp.where(xp.isnan(x), x, xp.maximum(x, 0)), 0),
    "sign": (lambda xp, x: xp.sign(x), 0),
    "floor": (lambda xp, x: xp.floor(x), 0),
    "ceil": (lambda xp, x: xp.ceil(x), 0),
    "round": (lambda xp, x: xp.rint(x), 0),
    "trunc": (lambda xp, x: xp.trunc(x), 0),
    "sqrt": (lambda xp, x: xp.sqrt(x), 1),
    "rsqrt": (lambda xp, x: 1 / xp.sqrt(x), 4),
    "reciprocal": (lambda xp, x: 1 / x, 2),
    "exp": (lambda xp, x: xp.exp(x), 4),
    "exp2": (lambda xp, x: xp.exp2(x), 4),
    "expm1": (lambda xp, x: xp.expm1(x), 4),
    "log": (lambda xp, x: xp.log(x), 4),
    "log2": (lambda xp, x: xp.log2(x), 4),
    "log10": (lambda xp, x: xp.log10(x), 4),
    "log1p": (lambda xp, x: xp.log1p(x), 4),
    "sin": (lambda xp, x: xp.sin(x), 4),
    "cos": (lambda xp, x: xp.cos(x), 4),
    "tan": (lambda xp, x: xp.tan(x), 6),
    "tanh": (lambda xp, x: xp.tanh(x), 4),
    "sinh": (lambda xp, x: xp.sinh(x), 6),
    "cosh": (lambda xp, x: xp.cosh(x), 6),
    "atan": (lambda xp, x: xp.arctan(x), 4),
    "sigmoid": (lambda xp, x: _sigmoid(xp, x), 6),
    "silu": (lambda xp, x: x * _sigmoid(xp, x), 8),
    "erf": (lambda xp, x: _erf(xp, x), 6),
    "logical_not": (lambda xp, x: xp.logical_not(x), 0),
    "isnan": (lambda xp, x: xp.isnan(x), 0),
    "bitwise_not": (lambda xp, x: xp.invert(x), 0),
}
_COMPARE = {
    "eq": lambda xp, a, b: a == b,
    "ne": lambda xp, a, b: a != b,
    "lt": lambda xp, a, b: a < b,
    "le": lambda xp, a, b: a <= b,
    "gt": lambda xp, a, b: a > b,
    "ge": lambda xp, a, b: a >= b,
    "logical_and": lambda xp, a, b: xp.logical_and(a, b),
    "logical_or": lambda xp, a, b: xp.logical_or(a, b),
    "maximum": lambda xp, a, b: xp.maximum(a, b),
    "minimum": lambda xp, a, b: xp.minimum(a, b),
}


def _sigmoid(xp: Any, x: Any) -> Any:
    return 1 / (1 + xp.exp(-x))


def _erf(xp: Any, x: Any) -> Any:
    return xp.vectorize(math.erf, otypes=[float])(x)


class Sampled:
    """The same places of every operand of an elementwise op."""

    def __init__(self, op: Inputs, out: Any) -> None:
        self.op, self.shape, self.count = op, tuple(out.shape), out.numel()
        self.at: tuple[Any, ...] | None = None
        if self.count > MOST:
            xp = op.xp
            flat = xp.unique(_places(xp, self.shape, op.turn))
            self.at = xp.unravel_index(flat, self.shape)

    def __call__(self, value: Any) -> Any:
        """A tensor or number as a float64 array, at the chosen places."""
        if not hasattr(value, "expand"):
            return value
        value = value.expand(self.shape)
        if self.at is not None:
            torch_at = tuple(_like(value, axis) for axis in self.at)
            value = value[torch_at]
        return self.op.f64(value)

    @property
    def share(self) -> float:
        return 1.0 if self.at is None else len(self.at[0]) / self.count


def _like(tensor: Any, places: Any) -> Any:
    import torch

    return torch.from_numpy(places).to(tensor.device)


def _places(xp: Any, shape: tuple[int, ...], turn: int) -> Any:
    """Runs of neighbours spread over the whole, other ones each turn, with both ends."""
    count = math.prod(shape)
    runs, width = 512, MOST // 512
    starts = xp.asarray(spread(count - width + 1, runs, turn))
    return (starts[:, None] + xp.arange(width)[None]).reshape(-1)


def judged(
    op: Inputs, take: Sampled, values: Any, terms: Any, ulps: float, roundings: int = 0
) -> list[Truth]:
    """A result rounded once to the output, computed in the inner dtype from `terms`.

    `terms` are the magnitudes that were rounded on the way (0 for none), `ulps` how many units of
    the inner dtype's last place a function of them may be off, `roundings` those to the output's
    dtype on the way: some CPU kernels compute in 16 bits what GPUs compute in 32.
    """
    out = op.outs[0]
    got = take(out)
    if not out.is_floating_point() or op.dtype not in UNIT:
        return [Truth(values, got, exact=True, rule="exact", share=take.share)]
    xp = op.xp
    allowed = last_place(xp, values, op.dtype) * (1.0001 + roundings)
    allowed = allowed + 2 * ulps * UNIT[op.compute] * xp.abs(values) + 2 * UNIT[op.compute] * terms
    return [Truth(values, got, allowed, rule="last place", share=take.share)]


def _scalars(op: Inputs) -> int:
    """1 when an operand is a number or a 0-dim tensor: it is rounded to the inner dtype first."""
    return int(any(not hasattr(arg, "dim") or arg.dim() == 0 for arg in op.args[:2]))


def _plain(op: Inputs) -> bool:
    return all(
        not getattr(arg, "is_complex", bool)() for arg in op.args if hasattr(arg, "is_complex")
    )


def _make_unary(function: Callable[[Any, Any], Any], ulps: float) -> Callable[[Inputs], Any]:
    def unary(op: Inputs) -> list[Truth] | None:
        if not _plain(op):
            return None
        take = Sampled(op, op.outs[0])
        return judged(op, take, function(op.xp, take(op.args[0])), 0.0, ulps)

    return unary


def _make_binary(function: Callable[[Any, Any, Any], Any]) -> Callable[[Inputs], Any]:
    def binary(op: Inputs) -> list[Truth] | None:
        if not _plain(op):
            return None
        take = Sampled(op, op.outs[0])
        a, b = take(op.args[0]), take(op.args[1])
        return judged(op, take, op.xp.asarray(function(op.xp, a, b)), 0.0, 0)

    return binary


def add(op: Inputs) -> list[Truth] | None:
    if not _plain(op):
        return None
    take, sign = Sampled(op, op.outs[0]), -1 if ".sub" in op.name else 1
    a, b = take(op.args[0]), take(op.args[1])
    alpha = op.kwargs.get("alpha", 1) if len(op.args) < 3 else op.args[2]
    if ".rsub" in op.name:
        a, b, sign = b, a, -1
    scaled = op.xp.asarray(b * (alpha * sign) if not _booleans(a, b) else b)
    terms = op.xp.abs(scaled) if alpha != 1 or _scalars(op) else 0.0
    if alpha != 1 and op.dtype in UNIT and UNIT[op.dtype] > UNIT[op.compute]:
        # a factor in 16 bits, and its product: some CPU kernels round both before they add
        terms = terms * (UNIT[op.dtype] / UNIT[op.compute])
    return judged(op, take, op.xp.asarray(a + scaled), terms, 0)


def _booleans(*values: Any) -> bool:
    return any(getattr(getattr(value, "dtype", None), "kind", "") == "b" for value in values)


def multiply(op: Inputs) -> list[Truth] | None:
    if not _plain(op):
        return None
    take = Sampled(op, op.outs[0])
    return judged(op, take, op.xp.asarray(take(op.args[0]) * take(op.args[1])), 0.0, _scalars(op))


def divide(op: Inputs) -> list[Truth] | None:
    if not _plain(op) or op.kwargs.get("rounding_mode") is not None:
        return None
    take = Sampled(op, op.outs[0])
    a, b = take(op.args[0]), take(op.args[1])
    # a division by a number is a product with its reciprocal in some kernels: two roundings
    return judged(op, take, op.xp.true_divide(a, b), 0.0, 2 + _scalars(op))


def power(op: Inputs) -> list[Truth] | None:
    if not _plain(op) or op.dtype not in UNIT:
        return None
    take, xp = Sampled(op, op.outs[0]), op.xp
    a, b = xp.asarray(take(op.args[0]), float), xp.asarray(take(op.args[1]), float)
    values = xp.power(a, b)
    # the exponent's product with the logarithm is rounded
    terms = xp.abs(values * b * xp.log(xp.where(a > 0, a, 1.0)))
    # x * x * x, and one over x * x: some CPU kernels round each product to 16 bits
    products = (
        1 if not xp.ndim(b) and float(b) in (3.0, -2.0) and op.dtype in ("bf16", "f16") else 0
    )
    return judged(op, take, values, terms, 16, products)


def where(op: Inputs) -> list[Truth] | None:
    take = Sampled(op, op.outs[0])
    condition, a, b = (take(op.args[place]) for place in range(3))
    got = take(op.outs[0])
    return [Truth(op.xp.where(condition, a, b), got, exact=True, rule="exact", share=take.share)]


def clamp(op: Inputs) -> list[Truth] | None:
    take, xp = Sampled(op, op.outs[0]), op.xp
    x, low, high = take(op.args[0]), op.get(1, "min"), op.get(2, "max")
    for bound, pick in ((low, xp.maximum), (high, xp.minimum)):
        if bound is not None:
            x = pick(x, take(bound))
    return judged(op, take, x, 0.0, 0)


def multiply_add(op: Inputs) -> list[Truth] | None:
    """addcmul, addcdiv, lerp."""
    if not _plain(op):
        return None
    take, xp = Sampled(op, op.outs[0]), op.xp
    a, b, c = (take(op.args[place]) for place in range(3))
    value = op.kwargs.get("value", 1)
    if ".lerp" in op.name:
        more = c * (b - a)
        # the kernel works from the nearer end: a + w (b - a), or b - (b - a)(1 - w)
        return judged(op, take, a + more, xp.abs(a) + xp.abs(b) + xp.abs(more), 0)
    more = value * (b * c if ".addcmul" in op.name else b / c)
    return judged(op, take, a + more, 2 * xp.abs(more), 0)


def gelu(op: Inputs) -> list[Truth] | None:
    take, xp = Sampled(op, op.outs[0]), op.xp
    x = take(op.args[0])
    if op.kwargs.get("approximate", "none") == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        values = 0.5 * x * (1 + xp.tanh(inner))
    else:
        values = 0.5 * x * (1 + _erf(xp, x / math.sqrt(2)))
    # 1 + erf cancels for negative x: the error is of the size of x, not of the result
    return judged(op, take, values, 4 * xp.abs(x), 4)


def gelu_backward(op: Inputs) -> list[Truth] | None:
    take, xp = Sampled(op, op.outs[0]), op.xp
    grad, x = take(op.args[0]), take(op.args[1])
    if op.kwargs.get("approximate", "none") == "tanh":
        slope = math.sqrt(2 / math.pi)
        inner = xp.tanh(slope * (x + 0.044715 * x**3))
        inside = slope * (1 + 3 * 0.044715 * x**2)
        values = grad * (0.5 * (1 + inner) + 0.5 * x * (1 - inner**2) * inside)
    else:
        density = xp.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        values = grad * (0.5 * (1 + _erf(xp, x / math.sqrt(2))) + x * density)
    return judged(op, take, values, 8 * xp.abs(grad) * (1 + x * x), 4)


def threshold_backward(op: Inputs) -> list[Truth] | None:
    take = Sampled(op, op.outs[0])
    grad, x = take(op.args[0]), take(op.args[1])
    values = op.xp.where(x <= op.args[2], 0.0, grad)
    return [Truth(values, take(op.outs[0]), exact=True, rule="exact", share=take.share)]


def tanh_backward(op: Inputs) -> list[Truth] | None:
    take = Sampled(op, op.outs[0])
    grad, y = take(op.args[0]), take(op.args[1])
    return judged(op, take, grad * (1 - y * y), op.xp.abs(grad), 2, 2)


def sigmoid_backward(op: Inputs) -> list[Truth] | None:
    take = Sampled(op, op.outs[0])
    grad, y = take(op.args[0]), take(op.args[1])
    return judged(op, take, grad * (1 - y) * y, op.xp.abs(grad) * op.xp.abs(y), 2, 2)


def silu_backward(op: Inputs) -> list[Truth] | None:
    take = Sampled(op, op.outs[0])
    grad, x = take(op.args[0]), take(op.args[1])
    gate = _sigmoid(op.xp, x)
    values = grad * gate * (1 + x * (1 - gate))
    return judged(op, take, values, 4 * op.xp.abs(grad) * (1 + op.xp.abs(x)), 8)


def convert(op: Inputs) -> list[Truth] | None:
    """Casts and copies: rounded once, to nearest."""
    source = op.args[1] if ".copy" in op.name else op.args[0]
    out = op.outs[0]
    if source.is_complex() or out.is_complex():
        return None
    take = Sampled(op, out)
    values = take(source)
    if not out.is_floating_point():
        got = take(out)
        if getattr(values, "dtype", None) is not None and values.dtype.kind == "f":
            values = values != 0 if op.dtype == "bool" else _whole(op, values, got)
        return [Truth(values, got, exact=True, rule="exact", share=take.share)]
    return judged(op, take, values, 0.0, 0)


def _whole(op: Inputs, values: Any, got: Any) -> Any:
    """Floats as integers. What an integer cannot hold may become anything (C, 6.3.1.4)."""
    bits = 8 * op.outs[0].element_size() - (op.dtype != "u8")
    fits = op.xp.isfinite(values) & (op.xp.abs(values) < 2.0**bits)
    return op.xp.where(fits, op.xp.trunc(op.xp.where(fits, values, 0.0)), got)


def _register() -> None:
    for name, (function, ulps) in _UNARY.items():
        FORMULAS[f"aten.{name}"] = FORMULAS[f"aten.{name}_"] = _make_unary(function, ulps)
    for name, compare in _COMPARE.items():
        FORMULAS[f"aten.{name}"] = FORMULAS[f"aten.{name}_"] = _make_binary(compare)
    several: dict[str, Callable[[Inputs], Any]] = {
        "add add_ sub sub_ rsub": add,
        "mul mul_": multiply,
        "div div_": divide,
        "pow pow_": power,
        "where": where,
        "clamp clamp_ clamp_min clamp_min_": clamp,
        "addcmul addcmul_ addcdiv addcdiv_ lerp lerp_": multiply_add,
        "gelu": gelu,
        "gelu_backward": gelu_backward,
        "threshold_backward": threshold_backward,
        "tanh_backward": tanh_backward,
        "sigmoid_backward": sigmoid_backward,
        "silu_backward": silu_backward,
        "_to_copy copy_ clone": convert,
    }
    for names, made in several.items():
        for name in names.split():
            FORMULAS[f"aten.{name}"] = made


_register()
