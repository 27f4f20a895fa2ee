"""What one run of a call gave: results, gradients, and everything that it left changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from reefwatch.gather.compiled.effects import Outside, outside_autocast
from reefwatch.gather.compiled.world import World

Cotangents = Callable[[int, torch.Tensor], torch.Tensor]


@dataclass
class Outcome:
    """Values by where they were: `output[0]`, `gradient of weight`, `running_mean afterwards`."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    plain: dict[str, Any] = field(default_factory=dict)
    error: BaseException | None = None
    stage: str = ""
    """Where `error` was raised: `call` or `backward`."""
    shares: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Which inputs each output shares its storage with."""
    wants: dict[str, bool] = field(default_factory=dict)
    """Whether each output requires a gradient."""
    drew: bool = False
    printed: str | None = ""
    """None when nobody listened."""
    outputs: list[tuple[str, torch.Tensor]] = field(default_factory=list)
    """The live outputs; dropped when their gradients are taken."""
    graded: bool = False
    """True when gradients are among the tensors."""
    labels: tuple[str, ...] = ("",)
    """Ends of the names of those gradients that were asked for; `("",)`: of all."""


def keep_output(outcome: Outcome, out: Any, inputs: dict[Any, list[str]], clone: bool) -> None:
    """Note the results of a call. `inputs` names the tensors by the storage they lie in."""
    from reefwatch.gather.compiled.world import Walk

    walk = Walk()
    walk.visit(out, "output")
    for leaf in walk.leaves:
        if leaf.kind != "tensor":
            outcome.plain[leaf.path] = leaf.value
            continue
        tensor: torch.Tensor = leaf.value
        outcome.outputs.append((leaf.path, tensor))
        outcome.wants[leaf.path] = tensor.requires_grad
        with torch.no_grad():
            seen = tensor.detach()
            outcome.tensors[leaf.path] = seen.clone() if clone else seen
        if tensor.numel() and tensor.layout == torch.strided and type(tensor) in _SHARING:
            names = inputs.get(tensor.untyped_storage()._cdata, [])
            outcome.shares[leaf.path] = tuple(sorted(names))


_SHARING = (torch.Tensor, torch.nn.Parameter)


def storages(tensors: list[tuple[str, torch.Tensor]]) -> dict[Any, list[str]]:
    """Names of tensors by the storage that they lie in."""
    found: dict[Any, list[str]] = {}
    for path, tensor in tensors:
        if tensor.layout == torch.strided:
            found.setdefault(tensor.untyped_storage()._cdata, []).append(path)
    return found


def keep_changes(
    outcome: Outcome,
    world: World,
    leaves: list[Any],
    was: Callable[[torch.Tensor], torch.Tensor | None],
) -> None:
    """Note what is otherwise than before the call.

    `was` gives, for a tensor that is reached now, its values before; None when it is new.
    """
    for leaf in leaves:
        if leaf.kind != "tensor":
            if leaf.kind in ("plain", "block") and world.plain.get(leaf.path, _NONE) != leaf.value:
                outcome.plain[f"{leaf.path} afterwards"] = leaf.value
            continue
        tensor: torch.Tensor = leaf.value
        with torch.no_grad():
            before = was(tensor)
            seen = tensor.detach()
            if before is None or not _same(before, seen):
                outcome.tensors[f"{leaf.path} afterwards"] = seen.clone()
            grad = tensor.grad if tensor.is_leaf and tensor.requires_grad else None
            if grad is not None:
                old = None if before is None else before.grad
                if old is None or not _same(old, grad):
                    outcome.tensors[f"{leaf.path}.grad afterwards"] = grad.detach().clone()


_NONE = object()


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    a = a.detach()
    if a is b:
        return True
    if a.shape != b.shape or a.dtype != b.dtype or a.layout != b.layout:
        return False
    return bool(torch.equal(a, b))


def keep_gradients(
    outcome: Outcome,
    wanted: list[tuple[str, torch.Tensor]],
    cotangents: Cotangents,
    label: str,
    again: bool,
    under: Any,
) -> None:
    """Note the gradients of the outputs for some cotangents, by input and parameter.

    The pass is made inside the context `under`; the cotangents are not made there.
    """
    outs = [(path, out) for path, out in outcome.outputs if _graded(out)]
    if not outs or not wanted:
        return
    sent = [cotangents(n, out) for n, (_, out) in enumerate(outs)]
    try:
        with outside_autocast(), under:
            found = torch.autograd.grad(
                [out for _, out in outs],
                [tensor for _, tensor in wanted],
                sent,
                retain_graph=again,
                allow_unused=True,
            )
    except Outside:
        raise
    except Exception as error:
        outcome.error, outcome.stage = error, "backward"
        return
    outcome.graded = True
    for (path, _), gradient in zip(wanted, found, strict=True):
        name = f"gradient of {path}, {label}"
        outcome.plain[f"{name} is there"] = gradient is not None
        if gradient is not None:
            outcome.tensors[name] = gradient.detach()


def _graded(out: torch.Tensor) -> bool:
    return bool(out.requires_grad and (out.is_floating_point() or out.is_complex()))
