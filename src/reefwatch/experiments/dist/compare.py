"""Is it what it must be, and if not: whose data is there instead?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from reefwatch.experiments.dist import codes
from reefwatch.experiments.dist.arena import differing, raw

SURE = 0.9
"""Share of the wrong elements that an explanation must account for."""
_CLOSE = 1e-5
"""Of the sum of the addends' sizes: a mean that was rounded still finds its explanation."""


@dataclass(frozen=True)
class Wrong:
    """How a result differs from the exact one."""

    count: int
    of: int
    first: int
    run: int
    """Length in bytes of the first run of wrong elements."""
    got: str
    want: str
    why: str = ""
    mask: Any = None

    def rows(self, of: int) -> list[int]:
        """First and last rows, of a tensor with `of` rows, in which elements are wrong."""
        places = self.mask.nonzero().flatten() // max(1, self.of // of)
        return sorted({int(places[0]), int(places[-1])})

    def words(self) -> str:
        count = f"{self.count} of {self.of} elements are wrong"
        told = f"{count}, the first is {self.first}: {self.got} in place of {self.want}"
        return f"{told}; {self.why}" if self.why else told


@dataclass
class Expected:
    """One tensor of a case with what must be in it."""

    got: Any
    want: Any
    explain: Callable[[Any, Any], str] | None = None
    """(values that are there, mask of the wrong ones) -> in words what they are."""
    bound: Any = None
    """Allowed distance per element; None asks for the same bits."""
    label: str = ""
    """Which part of the result this is."""

    def wrong(self) -> Wrong | None:
        got, want = self.got.detach().reshape(-1), self.want.reshape(-1)
        if got.shape != want.shape or got.dtype != want.dtype:
            there = f"{tuple(got.shape)} {codes.name_of(got.dtype)}"
            return Wrong(
                want.numel(),
                want.numel(),
                0,
                0,
                there,
                f"{tuple(want.shape)} {codes.name_of(want.dtype)}",
            )
        mask = differing(got, want) if self.bound is None else _beyond(got, want, self.bound)
        count = int(mask.sum())
        if not count:
            return None
        places = mask.nonzero().flatten()
        first = int(places[0])
        stop = (
            int((~mask[first:]).nonzero().flatten()[0])
            if not bool(mask[first:].all())
            else len(mask) - first
        )
        told = self.explain(got, mask) if self.explain is not None else ""
        why = ": ".join(part for part in (self.label, told) if part)
        return Wrong(
            count,
            len(mask),
            first,
            stop * got.element_size(),
            _text(got[first]),
            _text(want[first]),
            why,
            mask,
        )


def _beyond(got: Any, want: Any, bound: Any) -> Any:
    wide = torch.complex128 if got.is_complex() else torch.float64
    distance = (got.to(wide) - want.to(wide)).abs()
    return ~(distance <= bound)


def _text(value: Any) -> str:
    return str(value.item())


def mover(
    make: Callable[[int, int], Any],
    world: int,
    slots: int,
    mine: tuple[int, int],
    names: tuple[int, ...],
) -> Callable[[Any, Any], str]:
    """An explanation of moved blocks: whose block is where `mine` (source, slot) should be.

    `make(source, slot)` gives the block. `names` are the global ranks.
    """

    def explain(got: Any, mask: Any) -> str:
        places = mask.nonzero().flatten()
        there = raw(got[places])
        best, words = 0.0, ""
        for source in range(world):
            for slot in range(slots):
                block = make(source, slot)
                if block.numel() == 0:
                    continue
                for shift in (0, 1, -1):
                    if (source, slot, shift) == (*mine, 0):
                        continue
                    candidate = torch.roll(raw(block), shift, 0)[places % block.numel()]
                    share = float((candidate == there).all(1).double().mean())
                    if share > best:
                        moved = f", shifted by {shift}" if shift else ""
                        part = f" for rank {names[slot]}" if slots > 1 else ""
                        best, words = share, f"holds what rank {names[source]} sent{part}{moved}"
        if best >= SURE:
            return words
        if float((there == 0).all(1).double().mean()) >= SURE:
            return "was never written"
        return ""

    return explain


def sums(
    parts: list[Any],
    names: tuple[int, ...],
    mean: bool = False,
    before: list[Any] | None = None,
    micro: list[list[Any]] | None = None,
) -> Callable[[Any, Any], str]:
    """An explanation of a wrong sum or mean over ranks; `before` are the parts of the step before.

    `micro` are the addends of each rank's part: its micro-batches.
    """

    def explain(got: Any, mask: Any) -> str:
        wide = torch.complex128 if got.is_complex() else torch.float64
        each = [part.reshape(-1)[mask].to(wide) for part in parts]
        there = got.reshape(-1)[mask].to(wide)
        old = [part.reshape(-1)[mask].to(wide) for part in before or ()]
        few = [[part.reshape(-1)[mask].to(wide) for part in some] for some in micro or ()]
        size = sum(part.abs() for part in each)
        allowed = _CLOSE * size + 1e-300
        if not bool(torch.isfinite(there.abs()).any()):
            return "is not finite"
        best, words = 0.0, ""
        for value, told in (*_candidates(each, old, names, mean), *_batches(each, few, names)):
            share = float(((there - value).abs() <= allowed).double().mean())
            if share > best:
                best, words = share, told
        return words if best >= SURE else ""

    return explain


def _candidates(
    each: list[Any], old: list[Any], names: tuple[int, ...], mean: bool
) -> Iterator[tuple[Any, str]]:
    total, by = sum(each), len(each) if mean else 1
    for rank, part in enumerate(each):
        less = f", rank {names[1 - rank]} is missing" if len(each) == 2 and not mean else ""
        yield part, f"was never reduced: it is what rank {names[rank]} gave{less}"
    for rank, part in enumerate(each):
        yield (total - part) / by, f"rank {names[rank]} is missing in it"
        yield (total + part) / by, f"rank {names[rank]} is counted twice in it"
        yield (total - 2 * part) / by, f"rank {names[rank]} has the wrong sign in it"
    yield total / by * 0, "was never written"
    if mean:
        yield total, "is the sum and not the mean"
        yield total / by / by, "was divided by the number of ranks twice"
    if old:
        yield sum(old) / by, "is the result of the step before"
        for rank, part in enumerate(each):
            yield (
                (total - part + old[rank]) / by,
                f"rank {names[rank]} gave what it had in the step before",
            )
    for rank, part in enumerate(each):
        for other, theirs in enumerate(each):
            if other != rank:
                yield (
                    (total - part + theirs) / by,
                    f"rank {names[other]} stands there for rank {names[rank]}",
                )
    for rank, part in enumerate(each):
        for factor in (0.5, 2.0, 4.0):
            yield (
                (total + (factor - 1) * part) / by,
                f"rank {names[rank]} was scaled by {factor:g} in it",
            )
    for factor in (0.5, 2.0, 4.0):
        yield total * factor / by, f"was scaled by {factor:g}"


def _batches(
    each: list[Any], few: list[list[Any]], names: tuple[int, ...]
) -> Iterator[tuple[Any, str]]:
    """Means in which a micro-batch of one rank is missing, or is there besides."""
    mean = sum(each) / len(each)
    for rank, some in enumerate(few):
        for number, part in enumerate(some):
            what = f"micro-batch {number} of rank {names[rank]}"
            yield mean - part / len(each), f"{what} is missing in it: it was not synchronised"
            yield mean + part - part / len(each), f"{what} was never reduced"
            yield mean + part / len(each), f"{what} is counted twice in it"
