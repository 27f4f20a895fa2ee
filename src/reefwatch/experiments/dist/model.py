"""The user's model: its parameter shapes, and the units in which it would be wrapped."""

from __future__ import annotations

import runpy
from typing import Any

import torch
from torch import nn


def layout(words: str) -> list[list[tuple[int, ...]]]:
    """Shapes by unit of `M.py:factory`: the members of module lists, then what is left.

    Nothing is allocated where the factory can build on the meta device. Raises ValueError.
    """
    file, _, name = words.rpartition(":")
    factory = runpy.run_path(file, run_name="reefwatch_model").get(name)
    if not callable(factory):
        raise ValueError(f"{file} has no function {name!r}")
    made = build(factory)
    if not isinstance(made, nn.Module):
        raise ValueError(f"{words} gives no module, but {type(made).__name__}")
    units: dict[str, list[tuple[int, ...]]] = {}
    blocks = unit_names(made)
    for path, param in made.named_parameters():
        unit = next((b for b in blocks if path.startswith(b + ".")), "")
        units.setdefault(unit, []).append(tuple(param.shape))
    if not units:
        raise ValueError(f"{words}: the module has no parameters")
    return [units[name] for name in units]


def build(factory: Any) -> Any:
    try:
        with torch.device("meta"):
            return factory()
    except Exception:  # it reads values while it builds
        return factory()


def unit_names(module: nn.Module) -> list[str]:
    """Paths of the units: those of an FSDP model, else the members of its module lists."""
    wrapped = [p for p, m in module.named_modules() if p and type(m).__name__.startswith("FSDP")]
    if wrapped:
        return sorted(wrapped, key=len, reverse=True)
    lists = [p for p, m in module.named_modules() if isinstance(m, (nn.ModuleList, nn.Sequential))]
    return sorted(
        (
            f"{p}.{k}".lstrip(".")
            for p in lists
            for k, _ in module.get_submodule(p).named_children()
        ),
        key=len,
    )
