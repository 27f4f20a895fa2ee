"""Ops without a formula of their own: torch's decomposition, else its float64 kernel.

A decomposition is another way to the same result; the float64 kernel is only another dtype and
device, and the row says which of the two it was.
"""

from __future__ import annotations

from typing import Any

from reefwatch.gather.numerics.formula import Inputs, Truth
from reefwatch.gather.numerics.noise import allowed
from reefwatch.gather.numerics.plans import Plan

MOST = 1 << 22
"""Elements of all inputs up to which it is done."""

_ADDED = (
    "index_put",
    "_index_put_impl",
    "index_add",
    "index_reduce",
    "scatter_add",
    "scatter_reduce",
    "put",
)
"""Ops that add up in place, term by term, in the dtype of their result."""

Answer = tuple["list[Truth] | None", str, str]


def again(torch: Any, op: Inputs, func: Any, plan: Plan) -> Answer:
    """(truths or None, who the witness was, why there is none)."""
    tensors = list(_tensors(torch, [*op.args, *op.kwargs.values()]))
    if not tensors:
        return [], "nothing to compute", ""
    if any(t.is_complex() or t.is_sparse or t.is_quantized for t in tensors):
        return None, "", "complex, sparse and quantized tensors are not judged"
    if sum(t.numel() for t in tensors) > MOST:
        return None, "", "too large for an op without a formula of its own"
    if op.name.startswith("aten._foreach_") or op.name.startswith("aten._fused_"):
        return _each(torch, op, func)
    if "attention" in op.name:
        op.extra["inner"] = op.dtype  # weights and their gradients are rounded to it on the way
    if op.name.removeprefix("aten.").startswith(_ADDED):
        op.extra["inner"] = op.dtype  # each term is added to what lies there
    table = __import__("torch._decomp", fromlist=["decomposition_table"]).decomposition_table
    call, witness = (table[func], "decomposition") if func in table else (func, "float64 kernel")
    try:
        values = _run(torch, op, call, [])
    except Exception as error:
        return (
            None,
            "",
            f"no formula for {op.name}, and in float64 it fails: {type(error).__name__}",
        )
    return _compared(torch, op, call, values, witness)


def _compared(torch: Any, op: Inputs, call: Any, values: list[Any], witness: str) -> Answer:
    outs = list(op.outs)
    if len(values) != len(outs):
        return None, "", f"{op.name} gives other outputs in float64"
    floats = [
        place
        for place, (value, out) in enumerate(zip(values, outs, strict=True))
        if value is not None and out is not None and out.is_floating_point() and out.numel()
    ]
    if not floats:
        return _whole(op, values, outs, witness)
    arrays = [op.f64(t) for t in _tensors(torch, [*op.args, *op.kwargs.values()])]

    def function(*near: Any) -> list[Any]:
        made = _run(torch, op, call, [torch.from_numpy(op.xp.array(a)) for a in near])
        return [op.f64(made[place]) for place in floats]

    truths = [op.f64(values[place]) for place in floats]
    length = max(1, max(a.size for a in arrays) // max(1, min(t.size for t in truths)))
    kinds = op.kinds(len(outs))
    bounds = allowed(op, function, arrays, truths, length, [kinds[place] for place in floats])
    told = [
        Truth(
            value,
            op.f64(outs[place]),
            bound,
            axis=min(1, value.ndim - 1) if value.ndim > 1 else None,
            output=place,
        )
        for value, bound, place in zip(truths, bounds, floats, strict=True)
    ]
    return told, witness, ""


def _whole(op: Inputs, values: list[Any], outs: list[Any], witness: str) -> Answer:
    """Integers and bools: the same, element by element. Ties of floats may fall otherwise."""
    if any(
        getattr(a, "is_floating_point", bool)() for a in op.args if hasattr(a, "is_floating_point")
    ):
        return None, "", "places of values (argmax, sort): ties may fall otherwise"
    told = [
        Truth(op.f64(value), op.f64(out), exact=True, rule="exact", output=place)
        for place, (value, out) in enumerate(zip(values, outs, strict=True))
        if value is not None and out is not None
    ]
    return told, witness, ""


def _run(torch: Any, op: Inputs, call: Any, instead: list[Any]) -> list[Any]:
    """The op in float64 on the CPU; `instead` replaces its tensors, in order."""
    queue = list(instead)
    wide = torch.float64

    def convert(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            made = queue.pop(0) if queue else value.detach().cpu()
            return made.to(wide) if value.is_floating_point() else made.to(value.dtype).clone()
        if isinstance(value, (list, tuple)):
            return [convert(one) for one in value]
        if isinstance(value, torch.dtype):
            return wide if value.is_floating_point else value
        if isinstance(value, torch.device):
            return torch.device("cpu")
        return value

    args = [convert(value) for value in op.args]
    kwargs = {name: convert(value) for name, value in op.kwargs.items()}
    out = call(*args, **kwargs)
    if out is None:
        return list(_tensors(torch, args))[: len(op.outs)]
    return list(out) if isinstance(out, (list, tuple)) else [out]


def _each(torch: Any, op: Inputs, func: Any) -> Answer:
    """Ops over lists of tensors, as optimizers use them: by the float64 kernel."""
    try:
        values = _run(torch, op, func, [])
    except Exception as error:
        return (
            None,
            "",
            f"no formula for {op.name}, and in float64 it fails: {type(error).__name__}",
        )
    from reefwatch.gather.numerics.noise import allowed as bounds_of

    outs = [out for out in op.outs if out is not None]
    if len(values) < len(outs):
        return None, "", f"{op.name} gives other outputs in float64"
    arrays = [op.f64(t) for t in _tensors(torch, [*op.args, *op.kwargs.values()])]

    def function(*near: Any) -> list[Any]:
        made = _run(torch, op, func, [torch.from_numpy(op.xp.array(a)) for a in near])
        return [op.f64(one) for one in made[: len(outs)]]

    truths = [op.f64(value) for value in values[: len(outs)]]
    longest = max(array.size for array in arrays) if "norm" in op.name else 1
    bounds = bounds_of(op, function, arrays, truths, longest, op.kinds(len(outs)))
    told = [
        Truth(value, op.f64(out), bound, output=place)
        for place, (value, out, bound) in enumerate(zip(truths, outs, bounds, strict=True))
        if out.is_floating_point() and out.numel()
    ]
    return told, "float64 kernel", ""


def _tensors(torch: Any, values: Any) -> Any:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(torch, value)
