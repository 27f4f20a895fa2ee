"""Did a tensor change? Sums of its bits, cheap enough for every parameter of a model."""

from __future__ import annotations

from typing import Any

from reefwatch.gather.loop.unseen import aside, dense, together

_WORDS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64", 16: "int64"}


def fingerprints(torch: Any, tensors: list[Any]) -> list[tuple[int, ...] | None]:
    """Per tensor two integers that differ, but for chance, when any bit differs.

    None for one whose values cannot be read (`unseen.dense`).

    A plain sum of the words and a sum weighted by position within 64 classes, in int64 with wrap
    around: it sees values that moved as well as values that changed.
    """
    with aside(torch):
        parts = [dense(torch, tensor) for tensor in tensors]
        sums = [_sums(torch, part) for part in parts if part is not None]
        flat = iter([int(v) for v in together(torch, [s for pair in sums for s in pair])])
    return [None if part is None else (next(flat), next(flat)) for part in parts]


def _sums(torch: Any, data: Any) -> tuple[Any, Any]:
    data = torch.view_as_real(data.resolve_conj()) if data.is_complex() else data
    words = data.contiguous().flatten()
    if words.numel() == 0:
        zero = torch.zeros((), dtype=torch.int64, device=data.device)
        return zero, zero
    words = words.view(getattr(torch, _WORDS[data.element_size()]))
    rows = words.numel() // 64
    head = words[: rows * 64].view(rows, 64).sum(0, dtype=torch.int64)
    weights = torch.arange(1, 65, device=data.device, dtype=torch.int64)
    tail = words[rows * 64 :].to(torch.int64)
    total = head.sum() + tail.sum()
    weighted = (head * weights).sum() + (tail * weights[: tail.numel()]).sum()
    return total, weighted
