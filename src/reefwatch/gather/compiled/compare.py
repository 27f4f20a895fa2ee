"""How far compiled code may be from the original: the rule, element by element.

|compiled - truth| <= 6 max|eager - truth| + floor * max(|truth|, rms(truth)), where the truth is
the original in float64, and the root mean square of the errors alike. The floor is `FLOOR` units
in the last place of the dtype: two right programs add up in another order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from reefwatch.gather.compiled.outcome import Outcome

TIMES = 6.0
"""Of the largest error of the original itself."""
FLOOR = {torch.float16: 4.0, torch.bfloat16: 4.0}
FLOOR_ELSE = 32.0
"""Units in the last place: 32 where sums are added up in the dtype itself, 4 where inside is
float32 and the result is rounded once."""
TRUSTED = 2000.0
"""Units in the last place that the original as a whole may be off what float64 gives."""
MOST = 0.3
"""Of what float64 gives, that it may be off at most: units of 16-bit numbers are large."""
ZERO = 4.0
"""Units of the largest gradient's rms: a gradient that is zero in theory is made of rounding."""


@dataclass
class Difference:
    """One place where compiled code and the original disagree."""

    path: str
    kind: str
    """`value`, `nan`, `integer`, `dtype`, `shape`, `structure`, `sharing`, `exception`, `state`,
    `printed`, `race`."""
    text: str
    error: float = 0.0
    allowed: float = 0.0
    wrong: int = 0
    elements: int = 0
    at: tuple[int, ...] = ()
    mask: Any = None
    """Which elements are off; for the second opinion."""


def differences(
    compiled: Outcome,
    eager: Outcome,
    truth: Outcome | None,
    *,
    values: bool = True,
    only: str = "",
    strict: bool = False,
    inside: float = 0.0,
) -> list[Difference]:
    """All disagreements. Without `values` only structure, dtypes and exceptions are compared.

    `only` limits what is compared to what the other side looked at (`output`). In `strict`, the
    original is the truth, casts and all. `inside` is the unit in the last place of the coarsest
    numbers in which the call computes: a float32 gradient may have come through bfloat16.
    """
    raised = _raised(compiled, eager, bool(only))
    if raised is not None:
        return raised
    found = _plain(compiled, eager, only, values)
    scale = _gradient_scale(eager)
    for path in {**eager.tensors, **compiled.tensors}:
        if path.startswith("gradient") and (only or not path.endswith(compiled.labels)):
            continue
        ours, theirs = compiled.tensors.get(path), eager.tensors.get(path)
        if ours is None or theirs is None:
            if not (values or path.startswith("output")):
                continue
            who = "the original" if ours is None else "compiled code"
            if path.endswith("afterwards"):
                text = f"only {who} changed {path.removesuffix(' afterwards')}"
                found.append(Difference(path, "state", text))
            elif not path.startswith("gradient"):
                found.append(Difference(path, "structure", f"only {who} gave {path}"))
            continue
        true = None if truth is None or strict else truth.tensors.get(path)
        floor = scale if path.startswith("gradient") else 0.0
        one = tensor(path, ours, theirs, true, floor, values, inside)
        if one is not None:
            found.append(one)
    return found


def _raised(compiled: Outcome, eager: Outcome, call: bool) -> list[Difference] | None:
    """What exceptions have to say; None when there is none on either side.

    `call`: the compiled side made no backward pass.
    """
    ours = compiled.error
    theirs = None if call and eager.stage == "backward" else eager.error
    if ours is None and theirs is None:
        return None
    if ours is not None and theirs is not None:
        return []
    where = " in the backward pass" if "backward" in (compiled.stage, eager.stage) else ""
    if theirs is not None:
        text = f"the original raises {_words(theirs)}{where}; compiled code does not"
    else:
        text = f"compiled code raises {_words(ours)}{where}; the original does not"
    return [Difference("exception", "exception", text)]


def _words(error: BaseException | None) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:160]}" if lines else type(error).__name__


def _plain(compiled: Outcome, eager: Outcome, only: str, values: bool) -> list[Difference]:
    found = []
    for path in {**eager.plain, **compiled.plain}:
        if path.startswith("gradient") and (
            only or not path.removesuffix(" is there").endswith(compiled.labels)
        ):
            continue
        ours, theirs = compiled.plain.get(path, _ABSENT), eager.plain.get(path, _ABSENT)
        if _alike(ours, theirs) or (not values and isinstance(ours, (int, float))):
            continue
        text = f"{path} is {ours!r:.80} compiled and {theirs!r:.80} in the original"
        state = "state" if path.endswith("afterwards") else "structure"
        found.append(Difference(path, state, text))
    for path, wants in eager.wants.items():
        if compiled.wants.get(path, wants) != wants:
            text = f"{path} requires a gradient {'only' if wants else 'not'} in the original"
            found.append(Difference(path, "structure", text))
    for path, shares in eager.shares.items():
        ours = compiled.shares.get(path, shares)
        if set(ours) != set(shares):
            names = ", ".join(shares) or "no input"
            here = ", ".join(ours) or "no input"
            text = f"{path} shares storage with {here} compiled and with {names} in the original"
            found.append(Difference(path, "sharing", text))
    if values and compiled.printed is not None and compiled.printed != eager.printed:
        text = f"it prints {compiled.printed!r:.60} compiled and {eager.printed!r:.60} else"
        found.append(Difference("printed", "printed", text))
    return found


class _Absent:
    def __repr__(self) -> str:
        return "unchanged"


_ABSENT = _Absent()


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or math.isclose(a, b, rel_tol=1e-5) or (a != a and b != b)
    try:
        return bool(type(a) is type(b) and a == b)
    except Exception:  # the program's own __eq__
        return True


def _gradient_scale(eager: Outcome) -> float:
    sizes = [
        _rms(value.to(torch.float64))
        for path, value in eager.tensors.items()
        if path.startswith("gradient") and value.is_floating_point() and value.numel()
    ]
    return max((size for size in sizes if math.isfinite(size)), default=0.0)


def _rms(values: torch.Tensor) -> float:
    return float(values.pow(2).mean().sqrt()) if values.numel() else 0.0


def tensor(
    path: str,
    compiled: torch.Tensor,
    eager: torch.Tensor,
    truth: torch.Tensor | None,
    scale: float = 0.0,
    values: bool = True,
    inside: float = 0.0,
) -> Difference | None:
    """None when one tensor is as near as the rule asks."""
    if compiled.shape != eager.shape:
        text = f"shape {tuple(compiled.shape)} compiled, {tuple(eager.shape)} in the original"
        return Difference(path, "shape", text)
    if compiled.dtype != eager.dtype:
        text = f"dtype {compiled.dtype} compiled, {eager.dtype} in the original"
        return Difference(path, "dtype", text)
    if not values or not eager.numel():
        return None
    if compiled.layout != torch.strided or eager.layout != torch.strided:
        if compiled.layout != eager.layout:
            return Difference(path, "dtype", f"layout {compiled.layout}, not {eager.layout}")
        compiled, eager = compiled.to_dense(), eager.to_dense()
        truth = None if truth is None else truth.to_dense()
    if compiled.is_quantized or eager.is_quantized:
        return None
    if truth is not None and truth.shape != eager.shape:
        truth = None
    if eager.is_complex():
        compiled, eager = _real(compiled), _real(eager)
        truth = _real(truth) if truth is not None and truth.is_complex() else None
    if not eager.is_floating_point():
        return _integers(path, compiled, eager, truth)
    return _floats(path, compiled, eager, truth, scale, inside)


def _real(value: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(value.resolve_conj())


def _integers(
    path: str, compiled: torch.Tensor, eager: torch.Tensor, truth: torch.Tensor | None
) -> Difference | None:
    off = compiled != eager
    if truth is not None and truth.dtype == eager.dtype:
        off = off & (eager == truth)
    if not bool(off.any()):
        return None
    at = _first(off)
    text = f"{path}{list(at)} is {compiled[at].item()} compiled and {eager[at].item()} else"
    wrong = int(off.sum())
    return Difference(path, "integer", text, 1.0, 0.0, wrong, eager.numel(), at, off)


def _first(mask: torch.Tensor) -> tuple[int, ...]:
    return tuple(int(index) for index in mask.nonzero()[0])


def _floats(
    path: str,
    compiled: torch.Tensor,
    eager: torch.Tensor,
    truth: torch.Tensor | None,
    scale: float,
    inside: float,
) -> Difference | None:
    unit = torch.finfo(eager.dtype).eps
    coarse = max(unit, inside)
    tiny = torch.finfo(eager.dtype).tiny
    floor = FLOOR.get(eager.dtype, FLOOR_ELSE)
    c, e = compiled.to(torch.float64), eager.to(torch.float64)
    r = e if truth is None or not truth.is_floating_point() else truth.to(torch.float64)
    odd = _odd(path, c, e, r)
    if odd is not None:
        return odd
    fine = torch.isfinite(c) & torch.isfinite(e) & torch.isfinite(r)
    if not bool(fine.any()):
        return None
    times = TIMES
    if r is not e and _unlike(e[fine], r[fine], coarse):
        if not _unlike(c[fine], r[fine], floor * unit / TRUSTED):
            times = 0.0  # compiled code is nearer to float64 than the original: fused, say
        else:
            r = e
    zero = torch.zeros((), dtype=c.dtype, device=c.device)
    off = torch.where(fine, (c - r).abs(), zero)
    own = torch.where(fine, (e - r).abs(), zero)
    size = torch.where(fine, r.abs(), zero)
    count = int(fine.sum())
    rms = max(float((size.pow(2).sum() / count).sqrt()), tiny)
    extra = ZERO * unit * scale
    allowed = times * float(own.max()) + floor * unit * size.clamp(min=rms) + extra
    wrong = off > allowed
    of = _rooted(off, count), _rooted(own, count)
    if not bool(wrong.any()):
        if of[0] <= times * of[1] + floor / 4 * unit * rms + extra:
            return None
        wrong = off > times * own + floor / 4 * unit * size.clamp(min=rms) + extra
        if not bool(wrong.any()):
            return None
    at = _index((off / allowed).argmax(), off.shape)
    referee = "in float64" if r is not e else "in the original"
    text = f"{path}{list(at)} is {c[at].item():.9g} compiled and {r[at].item():.9g} {referee}"
    return Difference(
        path,
        "value",
        text,
        float(off[at]),
        float(allowed[at]),
        int(wrong.sum()),
        eager.numel(),
        at,
        wrong,
    )


def _unlike(e: torch.Tensor, r: torch.Tensor, unit: float) -> bool:
    """True when float64 is no truth here: the original is far from it for other reasons.

    A draw that could not be replayed, a branch that was taken otherwise, a problem that is ill
    conditioned. The original is the referee then, and noise has the last word.
    """
    return _rms(e - r) > min(TRUSTED * unit, MOST) * _rms(r)


def _rooted(values: torch.Tensor, count: int) -> float:
    return float((values.pow(2).sum() / count).sqrt())


def _index(flat: torch.Tensor, shape: torch.Size) -> tuple[int, ...]:
    where, found = int(flat), []
    for length in reversed(shape):
        found.append(where % length)
        where //= length
    return tuple(reversed(found))


def _odd(path: str, c: torch.Tensor, e: torch.Tensor, r: torch.Tensor) -> Difference | None:
    """Where NaN and infinity stand, as far as the original and the truth agree on it."""
    kind_c, kind_e, kind_r = kinds(c), kinds(e), kinds(r)
    off = (kind_c != kind_e) & (kind_e == kind_r)
    if not bool(off.any()):
        return None
    at = _first(off)
    text = f"{path}{list(at)} is {c[at].item():.6g} compiled and {e[at].item():.6g} else"
    return Difference(path, "nan", text, math.inf, 0.0, int(off.sum()), e.numel(), at, off)


def kinds(values: torch.Tensor) -> torch.Tensor:
    """0 for finite values, 1 for NaN, 2 and 3 for the infinities."""
    kinds = torch.isnan(values).to(torch.int8)
    return kinds + 2 * torch.isposinf(values) + 3 * torch.isneginf(values)
