"""Dispatch modes under which the original is run once more: draws recorded, in float64, noisy.

They change last bits (decision 0004), so what the compiled code is compared with is run without.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from reefwatch.gather.compiled.copies import LOW, wide
from reefwatch.gather.compiled.effects import Outside

_EXACT = frozenset(
    """
        abs amax amin argmax argmin argsort bernoulli bool bucketize cat ceil clamp clamp_max
        clamp_min clone constant_pad_nd contiguous copy diag diagonal dropout embedding empty
        empty_like empty_strided eq expand fill flip floor full full_like gather ge gt hardtanh
        index index_select isfinite isinf isnan kthvalue le leaky_relu lt masked_fill
        masked_select max max_pool2d_with_indices max_pool3d_with_indices maximum median min
        minimum mode narrow native_dropout ne neg new_empty new_full new_ones new_zeros nonzero
        ones ones_like permute pixel_shuffle pixel_unshuffle rand rand_like randint randn
        randn_like randperm relu repeat roll round scalar_tensor scatter searchsorted select sgn
        sign slice sort split squeeze stack t take threshold topk transpose tril triu trunc
        unbind unfold unsqueeze view where zeros zeros_like isneginf isposinf logical_and
        logical_or logical_not lift_fresh detach alias reshape unique _unsafe_index _unsafe_view
        select_backward slice_backward as_strided
    """.split()  # noqa: SIM905
)
"""Ops that choose or move values and round nothing."""


def _random(func: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(func, "tags", ())


def _collective(func: Any) -> None:
    space = getattr(func, "namespace", "")
    if space in ("c10d", "_c10d_functional", "_c10d_functional_autograd", "symm_mem"):
        raise Outside("it talks to other ranks")


class Recorder(TorchDispatchMode):  # type: ignore[misc]
    """Keeps what random ops gave, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.draws: list[tuple[Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        _collective(func)
        out = func(*args, **(kwargs or {}))
        if _random(func):
            self.draws.append((func, tree_map(_kept, out)))
        return out


def _kept(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


class Replay(TorchDispatchMode):  # type: ignore[misc]
    """Gives the recorded draws again."""

    def __init__(self, draws: list[tuple[Any, Any]]) -> None:
        super().__init__()
        self._draws = list(draws)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if _random(func) and self._draws:
            return self._again(func, args)
        return self._compute(func, args, kwargs)

    def _compute(self, func: Any, args: Any, kwargs: Any) -> Any:
        return func(*args, **kwargs)

    def _again(self, func: Any, args: Any) -> Any:
        recorded, out = self._draws.pop(0)
        if recorded is not func:
            raise RuntimeError("random ops came in another order")
        name = func._schema.name
        if name.endswith("_") and isinstance(args[0], torch.Tensor):
            return args[0].copy_(out)
        if name == "aten::native_dropout":
            mask = out[1]
            keep = 1.0 - float(args[1])
            return args[0] * mask.to(args[0].dtype) / (keep or 1.0), mask
        if (
            not all(
                value.dim() == 0 or value.numel() == 0 or not value.is_floating_point()
                for value in args
                if isinstance(value, torch.Tensor)
            )
            and name not in _SHAPES
        ):
            raise RuntimeError(f"{name} depends on its inputs and draws at once")
        return tree_map(self._cast, out)

    def _cast(self, value: Any) -> Any:
        return value


_SHAPES = """
    aten::rand_like aten::randn_like aten::randint_like aten::bernoulli aten::normal
    aten::multinomial aten::poisson aten::exponential aten::uniform
""".split()  # noqa: SIM905
"""Random ops that may read a float tensor, and whose result still stands when it is widened."""


class Wide(Replay):
    """Computes in float64: explicit casts to less are casts to float64."""

    def _compute(self, func: Any, args: Any, kwargs: Any) -> Any:
        if kwargs.get("dtype") in (*LOW, torch.complex64):
            kwargs["dtype"] = wide(kwargs["dtype"])
        if any(isinstance(value, torch.dtype) for value in args):
            args = tuple(wide(v) if isinstance(v, torch.dtype) else v for v in args)
        return func(*args, **kwargs)

    def _cast(self, value: Any) -> Any:
        return value.to(wide(value.dtype)) if isinstance(value, torch.Tensor) else value


class Noise(Replay):
    """Moves each rounded result by up to one unit in its last place, as other kernels might."""

    def __init__(self, draws: list[tuple[Any, Any]], seed: int, casts: bool = True) -> None:
        super().__init__(draws)
        self._casts = casts
        """False: a cast to fewer bits is asked for, and is to be as it is."""
        self._generator = torch.Generator().manual_seed(seed)

    def _compute(self, func: Any, args: Any, kwargs: Any) -> Any:
        out = func(*args, **kwargs)
        name = func._schema.name.partition("::")[2].removesuffix("_")
        if name.removesuffix("_copy") in _EXACT or func.is_view:
            return out
        if name in ("_to_copy", "to", "convert_element_type") and not (
            self._casts and _narrows(args[0], out)
        ):
            return out
        with torch.no_grad():
            return tree_map(self._moved, out)

    def _moved(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype not in (*LOW, torch.float64):
            return value
        if not value.numel() or value.layout != torch.strided or 0 in value.stride():
            return value
        unit = torch.finfo(value.dtype).eps
        signs = torch.randint(-1, 2, value.shape, generator=self._generator, dtype=torch.int8)
        value.mul_(1 + signs.to(value.device, torch.float32 if unit > 1e-9 else value.dtype) * unit)
        return value


def _narrows(source: Any, out: Any) -> bool:
    return bool(
        isinstance(source, torch.Tensor)
        and source.is_floating_point()
        and out.is_floating_point()
        and torch.finfo(out.dtype).eps > torch.finfo(source.dtype).eps
    )
