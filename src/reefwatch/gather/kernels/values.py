"""The bytes of a launch's tensors as numbers: compared, and nudged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reefwatch.gather.dtypes import short
from reefwatch.gather.kernels.arguments import Arguments
from reefwatch.measure import agreement
from reefwatch.measure.agreement import Agreement
from reefwatch.measure.rounding import UNIT

XF32 = 2.0**-11
"""One ulp of xf32, in which gfx942 multiplies f32 (10 bits of mantissa)."""


def numbers(torch: Any, raw: Any, dtype: Any) -> Any:
    """Bytes of a tensor of torch's `dtype`: f64, or integers as they are. Shape [elements]."""
    size = torch.empty(0, dtype=dtype).element_size()
    whole = np.ascontiguousarray(raw[: len(raw) // size * size])
    flat = torch.from_numpy(whole.copy()).view(dtype)
    if dtype.is_complex:
        return torch.view_as_real(flat).reshape(-1).double().numpy()
    if dtype.is_floating_point:
        return flat.double().numpy()
    return flat.view(torch.uint8).numpy() if dtype is torch.bool else flat.numpy()


def dtypes(arguments: Arguments) -> list[str]:
    """Names of the dtypes of the tensors that take part."""
    return [short(buffer.tensor.dtype) for buffer in arguments.buffers]


def held(
    torch: Any,
    arguments: Arguments,
    before: Sequence[Any],
    mine: Sequence[Any],
    theirs: Sequence[Any],
    moved: Sequence[Any] | None = None,
    part: bool = False,
) -> dict[str, Any]:
    """The worst agreement among the tensors, over the elements that either run wrote.

    With `part` over those that `theirs` wrote: it ran a part of the grid alone.
    """
    coarsest = agreement.coarsest(dtypes(arguments))
    worst = Agreement(True, 0, 0, 0.0)
    named, of, different = "", 0, 0
    for n, buffer in enumerate(arguments.buffers):
        dtype = buffer.tensor.dtype
        was, one, two = (numbers(torch, raw, dtype) for raw in (before[n], mine[n], theirs[n]))
        kept = _bits(two) == _bits(was)
        written = ~kept if part else ~(kept & (_bits(one) == _bits(was)))
        away = None if moved is None else moved[n][written]
        told = agreement.agree(np, one[written], two[written], coarsest, away)
        of += told.of
        different += told.different
        if told.worst > worst.worst or not named:
            at = int(np.flatnonzero(written)[told.index]) if told.index >= 0 else -1
            worst = Agreement(told.agrees, told.different, told.of, told.worst, at, told.values)
            named = buffer.name
    return {
        "agrees": different == 0,
        "different": different,
        "of": of,
        "worst": worst.worst,
        "argument": named,
        "index": worst.index,
        "values": list(worst.values),
        "dtype": coarsest,
    }


def _bits(values: Any) -> Any:
    """Compared bit for bit, so that NaN is equal to itself."""
    return values.view(np.int64) if values.dtype == np.float64 else values


def nudged(
    torch: Any, arguments: Arguments, before: Sequence[Any], seed: int, least: float = 0.0
) -> list[Any]:
    """The inputs with every finite float moved by at most one ulp of its dtype, at random.

    `least` is the smallest relative step, for products that are rounded more coarsely than that.
    """
    rng = np.random.default_rng(seed)
    moved = []
    for buffer, raw in zip(arguments.buffers, before, strict=True):
        dtype = buffer.tensor.dtype
        if not dtype.is_floating_point:
            moved.append(raw)
            continue
        values = numbers(torch, raw, dtype)
        step = max(2 * UNIT.get(short(dtype), 0.0), least)
        with np.errstate(all="ignore"):
            values = values * (1 + step * rng.choice([-1.0, 1.0], values.shape))
        made = torch.from_numpy(values).to(dtype).view(torch.uint8).numpy()
        moved.append(np.concatenate([made, raw[len(made) :]]))
    return moved


def movement(
    torch: Any, arguments: Arguments, base: Sequence[Any], others: Sequence[Sequence[Any]]
) -> list[Any]:
    """How far each element of each tensor moves from `base`, the largest over `others`."""
    told = []
    for n, buffer in enumerate(arguments.buffers):
        dtype = buffer.tensor.dtype
        still = numbers(torch, base[n], dtype).astype(np.float64)
        with np.errstate(all="ignore"):
            steps = [
                np.abs(numbers(torch, other[n], dtype).astype(np.float64) - still)
                for other in others
            ]
            told.append(np.nan_to_num(np.maximum.reduce(steps), nan=0.0, posinf=np.inf))
    return told
