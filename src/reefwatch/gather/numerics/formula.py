"""What a formula is: the same op once more, in float64 and by other means than the kernel's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from reefwatch.gather.dtypes import short
from reefwatch.measure.rounding import UNIT


@dataclass
class Truth:
    """One output as it should be. Arrays are numpy float64, of the same shape."""

    values: Any
    got: Any
    """The same elements as the run has them, as a numpy array."""
    allowed: Any = None
    """How far each element may be off; None: from the noise of the formula itself."""
    exact: bool = False
    """Nothing is computed: every bit is to agree."""
    rule: str = "noise"
    """Where `allowed` comes from: `rounding bound`, `last place`, `noise`, `exact`."""
    axis: int | None = None
    """The axis whose slices (channels, heads) are looked at one by one."""
    output: int = 0
    bias: float = 0.0
    """A relative error that a whole slice may share."""
    share: float = 1.0
    """Of the elements of this output, how many are among the values."""


@dataclass(frozen=True)
class Inputs:
    """One call of an op: its arguments as they were when it ran, and what it gave."""

    xp: Any
    """numpy."""
    name: str
    args: Sequence[Any]
    kwargs: dict[str, Any]
    outs: Sequence[Any]
    """Output tensors, in order."""
    dtype: str
    """Of the (first) output."""
    compute: str
    """Dtype in which the kernel may compute inside: f32 for the 16-bit ones."""
    loose: float = 0.0
    """Relative error that the flags allow each factor of a product (TF32)."""
    turn: int = 0
    """How often this call was judged before: another sample each time."""
    extra: dict[str, Any] = field(default_factory=dict)

    def get(self, place: int, name: str, default: Any = None) -> Any:
        """An argument by place or name."""
        if place < len(self.args):
            return self.args[place]
        return self.kwargs.get(name, default)

    def kinds(self, count: int) -> list[str]:
        """The dtypes of the first `count` outputs, that of the first where one is no float."""
        named = [short(out.dtype) if out is not None else self.dtype for out in self.outs[:count]]
        named += [self.dtype] * (count - len(named))
        return [name if name in UNIT else self.dtype for name in named]

    def f64(self, tensor: Any) -> Any:
        """A tensor as a numpy float64 array (integers and bools as they are)."""
        return to_numpy(tensor)


Formula = Callable[[Inputs], "list[Truth] | None"]
FORMULAS: dict[str, Formula] = {}
"""By op name without overload, `aten.mm`, or with it, `aten.sum.dim_IntList`."""


def formula(*names: str) -> Callable[[Formula], Formula]:
    """Register a formula for these ops."""

    def register(made: Formula) -> Formula:
        for name in names:
            if name in FORMULAS:
                raise ValueError(f"two formulas for {name}")
            FORMULAS[name] = made
        return made

    return register


def find(name: str) -> Formula | None:
    """The formula of `aten.mm.default`, or None."""
    return FORMULAS.get(name) or FORMULAS.get(name.rpartition(".")[0])


def to_numpy(tensor: Any) -> Any:
    """A tensor as numpy: floats as float64, which is exact.

    No kernel of torch's takes part on the CPU: the one under judgement may be that of a cast.
    """
    import numpy
    import torch

    tensor = tensor.detach()
    if tensor.device.type != "cpu":
        tensor = tensor.cpu()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    if tensor.dtype == torch.bfloat16:  # the upper half of a float32
        halves = tensor.view(torch.int16).numpy().view(numpy.uint16)
        return (halves.astype(numpy.uint32) << 16).view(numpy.float32).astype(numpy.float64)
    if tensor.dtype in (torch.float32, torch.float16, torch.float64):
        return tensor.numpy().astype(numpy.float64)
    if tensor.is_floating_point():
        return tensor.double().numpy()
    return tensor.numpy()


def spread(count: int, most: int, turn: int) -> list[int]:
    """At most `most` of `count` places: both ends, the rest evenly, shifted with each turn."""
    if count <= most:
        return list(range(count))
    step = (count - 2) / max(most - 2, 1)
    shift = (turn * 0.618033988749895) % 1.0
    inner = {1 + int((place + shift) * step) for place in range(most - 2)}
    return sorted({0, count - 1, *(place for place in inner if place < count - 1)})
