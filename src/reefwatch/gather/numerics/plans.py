"""What is known of an op before it is judged: what it writes, and whether it can be judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reefwatch.gather.numerics.formula import find

_MADE = frozenset(
    """empty empty_like empty_strided new_empty new_empty_strided zeros zeros_like new_zeros ones
    ones_like new_ones full full_like new_full arange scalar_tensor eye linspace fill_ fill zero_
    resize_ set_ _local_scalar_dense item is_same_size sym_size record_stream lift_fresh detach
    detach_ requires_grad_ _unsafe_view _reshape_alias""".split()  # noqa: SIM905
)
"""Ops that make or rearrange, and compute nothing that could be wrong by rounding."""
_ALIASED = frozenset(("unsafe_split", "unsafe_split_with_sizes"))
"""Ops that give parts of their input's memory, though their schema does not say so: what they
give is judged from a copy of the input."""
_SPACES = ("aten", "prims")
_SILENT = ("profiler", "prim")


@dataclass(frozen=True)
class Plan:
    """How one op is judged."""

    name: str
    writes: tuple[int, ...]
    """Places of the arguments that it writes."""
    names: tuple[str, ...]
    """Names of all arguments, by place."""
    kept: tuple[int, ...] = ()
    """Places of the arguments that are copied before it runs: those, and what it aliases."""
    silent: bool = False
    """Nothing to judge: a view, or a tensor made from nothing."""
    reason: str = ""
    """Why it cannot be judged."""


class Plans:
    """Plans by op, made once each."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._plans: dict[int, tuple[Plan, Any]] = {}

    def of(self, func: Any) -> Plan:
        kept = self._plans.get(id(func))
        if kept is None:
            kept = self._plans[id(func)] = (self._make(func), func)
        return kept[0]

    def _make(self, func: Any) -> Plan:
        name = str(func)
        schema = getattr(func, "_schema", None)
        if schema is None:
            return Plan(name, (), (), reason="a higher-order operator")
        space, _, rest = name.partition(".")
        bare = rest.partition(".")[0]
        names = tuple(argument.name for argument in schema.arguments)
        alias = [argument.alias_info for argument in schema.arguments]
        writes = tuple(at for at, info in enumerate(alias) if info is not None and info.is_write)
        kept = (*writes, 0) if bare in _ALIASED else writes
        views = any(info is not None and not info.is_write for info in alias)
        if space in _SILENT:
            return Plan(name, (), names, silent=True)
        if space not in _SPACES:
            return Plan(name, writes, names, kept, reason=f"{space}::{bare} has no second formula")
        if bare in _MADE or (views and not writes):
            return Plan(name, writes, names, kept, silent=True)
        if self._torch.Tag.nondeterministic_seeded in func.tags:
            random = f"random ({name}): another draw is as right"
            return Plan(name, writes, names, kept, reason="" if find(name) else random)
        return Plan(name, writes, names, kept)

    def copied(self, plan: Plan, args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with copies of those that are written or given on."""
        written = {plan.names[at] for at in plan.kept}
        return (
            [self._copy(arg) if at in plan.kept else arg for at, arg in enumerate(args)],
            {name: self._copy(arg) if name in written else arg for name, arg in kwargs.items()},
        )

    def _copy(self, value: Any) -> Any:
        if isinstance(value, self._torch.Tensor):
            return value.detach().clone()
        if isinstance(value, (list, tuple)):
            return [self._copy(one) for one in value]
        return value

    def outputs(self, plan: Plan, call: Any) -> list[Any]:
        """The tensors that an op gave; of one that only writes, those it wrote."""
        out = call.out
        tensor = self._torch.Tensor
        if isinstance(out, tensor):
            return [out]
        if isinstance(out, (list, tuple)) and out:
            return [one if isinstance(one, tensor) else None for one in out]
        found: list[Any] = []
        for at in plan.writes:
            value = call.args[at] if at < len(call.args) else call.kwargs.get(plan.names[at])
            found += [value] if isinstance(value, tensor) else list(value or ())
        return found
