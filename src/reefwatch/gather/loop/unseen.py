"""Looking at tensors without being seen by the run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def unseen(torch: Any) -> Any:
    """A context in which reading an attribute of a tensor calls no function mode or subclass."""
    return torch._C.DisableTorchFunction()


@contextmanager
def aside(torch: Any) -> Iterator[None]:
    """A context in which ops of ours reach no mode of the user's, autograd or autocast.

    For examined steps and the end of the run: entering it costs about 20 us.
    """
    from torch.utils._python_dispatch import _disable_current_modes

    with torch._C.DisableTorchFunction(), _disable_current_modes(), torch.no_grad():
        yield


def plain(torch: Any, value: Any) -> bool:
    """True for a tensor with values of its own, whose ops run no code of others.

    No subclass, no functorch wrapper, not nested, on no meta device; and no zero tensor, which
    forward-mode derivatives make: it has no storage, and reading it ends the process.
    """
    return type(value) in (torch.Tensor, torch.nn.Parameter) and not (
        value.is_meta
        or value.is_nested
        or value._is_zerotensor()
        or torch._C._functorch.is_functorch_wrapped_tensor(value)
    )


def dense(torch: Any, value: Any) -> Any:
    """The plain dense tensor that holds the values of `value` on this rank, or None.

    Every instrument that computes on a tensor of the program asks this or `plain` first. Of a
    DTensor it is the shard that lies here; of a sparse tensor the values that it names. What has
    none (another subclass, a fake or wrapped tensor) is skipped, and must not count as seen.
    """
    local = getattr(value, "_local_tensor", value)
    if not plain(torch, local):
        return None
    local = local.detach()
    if local.layout is torch.strided:
        return None if freed(local) else local
    try:
        values = local._values()
    except (RuntimeError, NotImplementedError):  # mkldnn and the like
        return None
    return values if plain(torch, values) else None


def freed(tensor: Any) -> bool:
    """True for a tensor whose memory was given back while it lives: FSDP's gathered parameters.

    FSDP sets the size of their storage to 0 between their uses. Reading one raises or worse.
    """
    if not tensor.numel():
        return False
    try:
        storage = tensor.untyped_storage()
    except (RuntimeError, NotImplementedError):
        return False
    return bool(storage.nbytes() == 0)


def nonzero(torch: Any, tensors: list[Any]) -> list[bool | None]:
    """Per tensor, whether any element is not zero; None where that cannot be read.

    One synchronisation per device.
    """
    with aside(torch):
        parts = [dense(torch, t) for t in tensors]
        counts = together(torch, [p.count_nonzero() for p in parts if p is not None])
        told = iter(counts)
        return [None if p is None else bool(next(told)) for p in parts]


def together(torch: Any, scalars: list[Any]) -> list[float]:
    """The values of 0-dim tensors, read with one synchronisation per device."""
    values: list[float] = [0.0] * len(scalars)
    by_device: dict[Any, list[int]] = {}
    for n, scalar in enumerate(scalars):
        by_device.setdefault((scalar.device, scalar.dtype), []).append(n)
    for where in by_device.values():
        for n, value in zip(where, torch.stack([scalars[n] for n in where]).tolist(), strict=True):
            values[n] = value
    return values
