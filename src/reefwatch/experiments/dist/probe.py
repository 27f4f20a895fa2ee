"""Modules whose gradient is prescribed: after DDP or FSDP it must be the exact mean over ranks.

The loss is the sum of p times G(rank, step, parameter, index), so the local gradient of p is G,
whatever the kernels do. It needs no reference run and holds for every dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from reefwatch.experiments.dist import codes
from reefwatch.experiments.dist.compare import Expected, sums
from reefwatch.experiments.dist.forms import mean_bound
from reefwatch.experiments.dist.steps import Bench, Row

SHAPES = ((7, 5), (33,), (64, 17), (129,), (40, 40), (3,), (96, 31))
_SALT = 11
Skips = Callable[[int], Sequence[int]]


class Unit(nn.Module):  # type: ignore[misc]
    """One parameter and its part of the loss."""

    def __init__(self, number: int, shape: tuple[int, ...], dtype: Any, device: Any, carried: Any):
        super().__init__()
        self.number, self.carried = number, carried
        self.p = nn.Parameter(initial(number, shape, dtype, device))

    def forward(self, total: Any, key: tuple[int, int, int], skip: Sequence[int]) -> Any:
        if self.number in skip:
            return total
        rank, world, step = key
        p = self.p
        g = given(self.number, p.numel(), self.carried, rank, world, step, p.device)
        return total + (p * g.to(p.dtype).reshape(p.shape)).sum().to(total.dtype)


def initial(number: int, shape: tuple[int, ...], dtype: Any, device: Any) -> Any:
    """The prescribed values of a parameter: small integers."""
    drawn = codes.hashes(math.prod(shape), 5, number, device=device)
    return codes.cast(drawn % 5, dtype).reshape(shape).clone()


def given(number: int, n: int, dtype: Any, rank: int, world: int, step: int, device: Any) -> Any:
    """G of one parameter; sums over 4 micro-batches of all ranks are exact in `dtype`."""
    return codes.addend(n, dtype, rank, world * 4, _SALT, number, step, device=device)


class Block(nn.Module):  # type: ignore[misc]
    """Units that a wrapper takes together."""

    def __init__(self, units: Sequence[Unit]) -> None:
        super().__init__()
        self.units = nn.ModuleList(units)

    def forward(self, total: Any, key: tuple[int, int, int], skip: Sequence[int]) -> Any:
        for unit in self.units:
            total = unit(total, key, skip)
        return total


class Probe(nn.Module):  # type: ignore[misc]
    """Blocks of units; `carried` is the dtype in which G must be exact."""

    def __init__(
        self,
        layout: Sequence[Sequence[tuple[int, ...]]],
        dtype: Any,
        device: Any,
        carried: Any = None,
    ):
        super().__init__()
        made, blocks = 0, []
        for shapes in layout:
            units = [
                Unit(made + k, s, dtype, device, carried or dtype) for k, s in enumerate(shapes)
            ]
            blocks.append(Block(units))
            made += len(shapes)
        self.blocks = nn.ModuleList(blocks)

    def units(self) -> list[Unit]:
        return [unit for block in self.blocks for unit in block.units]

    def forward(self, key: tuple[int, int, int], skip: Sequence[int] = ()) -> Any:
        total = torch.zeros((), dtype=torch.float32, device=self.units()[0].p.device)
        for block in self.blocks:
            total = block(total, key, skip)
        return total


def layout(bench: Bench) -> list[list[tuple[int, ...]]]:
    """Shapes by unit: of the user's model where one is given, else ours."""
    if bench.options.get("model"):
        from reefwatch.experiments.dist import model

        return model.layout(bench.options["model"])
    return [[SHAPES[0], SHAPES[1]], [SHAPES[2]], [SHAPES[3], SHAPES[4]], [SHAPES[5], SHAPES[6]]]


def judged(
    grads: Sequence[Any],
    shapes: Sequence[tuple[int, ...]],
    carried: Any,
    world: int,
    steps: Sequence[int],
    rounding: float = 0.0,
    skip: Skips | None = None,
    sharded: bool = False,
) -> Row | None:
    """What is wrong with full gradients after the micro-batches `steps`; None when nothing is.

    `rounding` is the relative error that a narrower dtype on the way may make, of the mean size.
    """
    bad: list[str] = []
    first: Row | None = None
    for number, (grad, shape) in enumerate(zip(grads, shapes, strict=True)):
        wrong = _one(number, grad, shape, carried, world, steps, rounding, skip)
        if wrong is not None:
            if sharded and grad is not None and "rows" in wrong:
                wrong["why"] = _shards(wrong["rows"], shape[0], world) + wrong["why"]
            bad.append(f"{number} {'x'.join(map(str, shape))}")
            first = first or wrong
    if first is not None:
        which = ", ".join(bad[:4]) + (f" and {len(bad) - 4} more" if len(bad) > 4 else "")
        first["detail"] = f"parameters {which}: {first['detail']}"
        first["parameters"] = len(bad)
    return first


def _shards(rows: list[int], of: int, world: int) -> str:
    """In whose shard the wrong rows lie, as FSDP2 splits them; "" when in all."""
    per = -(-of // world)
    ranks = sorted({row // per for row in rows})
    if len(ranks) == world:
        return ""
    return ("the shard of rank " if len(ranks) == 1 else "the shards of ranks ") + (
        ", ".join(map(str, ranks)) + ": "
    )


def _one(
    number: int,
    grad: Any,
    shape: tuple[int, ...],
    carried: Any,
    world: int,
    steps: Sequence[int],
    rounding: float,
    skip: Skips | None,
) -> Row | None:
    if grad is None:
        return {"state": "wrong", "detail": "there is no gradient", "why": "was never reduced"}
    n, wide, device = math.prod(shape), torch.float64, grad.device

    def micro(rank: int, some: Sequence[int]) -> list[Any]:
        left_out = skip is not None and number in skip(rank)
        each = [given(number, n, carried, rank, world, step, device).to(wide) for step in some]
        return [part * 0 for part in each] if left_out else each

    few = [micro(rank, steps) for rank in range(world)]
    parts = [torch.stack(some).sum(0) for some in few]
    back = len(steps)
    old = (
        [torch.stack(micro(r, [s - back for s in steps])).sum(0) for r in range(world)]
        if steps[0] >= back
        else None
    )
    want = torch.stack(parts).sum(0) / world
    size = torch.stack([part.abs() for part in parts]).sum(0) / world
    bound = rounding * size + (
        mean_bound([p.to(carried) for p in parts]) if world & (world - 1) else 0
    )
    got = grad.detach().reshape(-1).to(wide)
    told = Expected(got, want, sums(parts, tuple(range(world)), True, old, few), bound).wrong()
    if told is None:
        return None
    return {
        "state": "wrong",
        "detail": told.words(),
        "why": told.why,
        "wrong": told.count,
        "of": told.of,
        "run": told.run,
        "rows": told.rows(shape[0]),
    }
