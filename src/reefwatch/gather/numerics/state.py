"""The six kinds of state that a training goes on from, read and not touched.

Weights, optimizer, scheduler, scaler and random state are looked up among the living objects; the
sixth, the place in the data, shows in the batch (resume.py). What a script writes into its
checkpoint is its own affair: here is what it holds in memory.
"""

from __future__ import annotations

import gc
import hashlib
import math
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from reefwatch.gather.numerics.sketch import digest

Values = dict[str, Any]
"""By name a plain value, or `[digest, norm]` of a tensor."""
_UNTOLD = frozenset(("params", "lr", "initial_lr", "foreach", "fused", "capturable"))
"""Of a parameter group: the tensors, what the scheduler is asked for, and how it is computed."""
_COUNTERS = frozenset(("verbose", "total_iters"))


def weights(torch: Any, loose: Mapping[str, Any]) -> Values:
    """Parameters and persistent buffers of every module that is not part of another one.

    `loose` are parameters of optimizers by name: those count too that no module holds.
    """
    told: Values = {}
    met: set[int] = set()
    for kind, root in _named_roots(torch):
        for name, tensor in (*root.named_parameters(), *_buffers(root)):
            met.add(id(tensor))
            told[f"{kind}.{name}"] = summed(torch, tensor)
    for name, tensor in loose.items():
        if id(tensor) not in met:
            told[name] = summed(torch, tensor)
    return {name: value for name, value in told.items() if value is not None}


def buffers(torch: Any) -> list[str]:
    """Those of the names of `weights` that are buffers: a forward may have changed them already."""
    return [f"{kind}.{name}" for kind, root in _named_roots(torch) for name, _ in _buffers(root)]


def _named_roots(torch: Any) -> Iterator[tuple[str, Any]]:
    """The modules that are part of no other one, by class and number."""
    kind = torch.nn.Module
    modules = [o for o in gc.get_objects() if issubclass(type(o), kind) and "_modules" in vars(o)]
    children = {id(child) for module in modules for child in module._modules.values()}
    counts: dict[str, int] = {}
    for root in modules:
        if id(root) in children or not any(True for _ in (*root.parameters(), *root.buffers())):
            continue
        name = type(root).__name__
        counts[name] = counts.get(name, 0) + 1
        yield name if counts[name] == 1 else f"{name}#{counts[name]}", root


def _buffers(root: Any) -> Iterator[tuple[str, Any]]:
    for path, part in root.named_modules():
        for name, buffer in part._buffers.items():
            if buffer is not None and name not in part._non_persistent_buffers_set:
                yield f"{path}.{name}".lstrip("."), buffer


def optimizers(torch: Any, found: Iterable[Any], name_of: Callable[[Any], str]) -> Values:
    """The state of each parameter, and the arguments of each group."""
    told: Values = {}
    for number, optimizer in enumerate(found):
        head = f"{type(optimizer).__name__}" + (f"#{number + 1}" if number else "")
        for at, group in enumerate(optimizer.param_groups):
            for key, value in group.items():
                if key not in _UNTOLD and (plain := _plain(value)) is not None:
                    told[f"{head}.group {at}.{key}"] = plain
        for param, state in optimizer.state.items():
            name = name_of(param) if isinstance(param, torch.Tensor) else str(param)
            for key, value in state.items() if isinstance(state, Mapping) else ():
                if isinstance(value, torch.Tensor):
                    told[f"{head}.{name}.{key}"] = summed(torch, value)
                elif (plain := _plain(value)) is not None:
                    told[f"{head}.{name}.{key}"] = plain
    return told


def rates(found: Iterable[Any]) -> Values:
    """The learning rate of each group."""
    told: Values = {}
    for number, optimizer in enumerate(found):
        head = f"{type(optimizer).__name__}" + (f"#{number + 1}" if number else "")
        for at, group in enumerate(optimizer.param_groups):
            if "lr" in group:
                told[f"{head}.group {at}.lr"] = float(group["lr"])
    return told


def schedulers(torch: Any, found: list[Any]) -> Values:
    """What each scheduler counts and keeps; not how often its `step` was called."""
    kind = torch.optim.lr_scheduler.LRScheduler
    alive = [o for o in gc.get_objects() if issubclass(type(o), kind) and "last_epoch" in vars(o)]
    order = {id(optimizer): number for number, optimizer in enumerate(found)}
    alive.sort(key=lambda one: (order.get(id(getattr(one, "optimizer", None)), 99), _kind(one)))
    told: Values = {}
    for number, one in enumerate(alive):
        for key, value in vars(one).items():
            counted = key == "_last_lr" or not key.startswith("_")
            if counted and key not in _COUNTERS and (plain := _plain(value)) is not None:
                told[f"{_kind(one)}{f'#{number + 1}' if number else ''}.{key}"] = plain
    return told


def scalers(torch: Any) -> Values:
    """Scale and growth of each GradScaler that is on."""
    kind = torch.amp.GradScaler
    alive = [o for o in gc.get_objects() if issubclass(type(o), kind)]
    told: Values = {}
    for number, one in enumerate(one for one in alive if getattr(one, "_enabled", False)):
        for key, value in one.state_dict().items():
            plain = _plain(value)
            if plain is not None:
                told[f"GradScaler{f'#{number + 1}' if number else ''}.{key.lstrip('_')}"] = plain
    return told


def randoms(torch: Any) -> dict[str, str]:
    """Digest of the state of each generator that a program shares, by its library."""
    told = {"python": _hashed(repr(random.getstate()).encode())}
    told["torch"] = digest(torch, torch.get_rng_state())
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        for number, state in enumerate(torch.cuda.get_rng_state_all()):
            told[f"cuda:{number}"] = digest(torch, state)
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        state = numpy.random.get_state(legacy=False)["state"]
        told["numpy"] = _hashed(state["key"].tobytes() + str(state["pos"]).encode())
    return told


def loaders(torch: Any) -> list[dict[str, Any]]:
    """Of each DataLoader its sampler, and whether that draws from a generator of its own."""
    kind = torch.utils.data.DataLoader
    told = []
    for one in [o for o in gc.get_objects() if issubclass(type(o), kind)]:
        sampler = getattr(one, "sampler", None)
        given = getattr(one, "generator", None) or getattr(sampler, "generator", None)
        known = type(sampler).__module__ == "torch.utils.data.sampler"
        own = given is not None or not known
        told.append({"sampler": type(sampler).__name__, "own": own})
    return told


def summed(torch: Any, tensor: Any) -> list[Any] | None:
    """`[digest, norm]` of a tensor; None where it cannot be read."""
    try:
        t = tensor.detach()
        norm = float(t.double().norm()) if t.numel() and not t.is_complex() else 0.0
        return [digest(torch, t), norm if math.isfinite(norm) else 0.0]
    except (RuntimeError, NotImplementedError, TypeError):  # sparse, wrapped, on no device
        return None


def combined(values: Mapping[str, Any]) -> str:
    """One digest of all."""
    return _hashed(repr(sorted(values.items())).encode())


def _plain(value: Any) -> Any:
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(v, (bool, int, float)) for v in value):
        return list(value)
    if hasattr(value, "item") and getattr(value, "numel", lambda: 0)() == 1:
        return float(value.item())
    return None


def _kind(one: Any) -> str:
    return type(one).__name__


def _hashed(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()
