"""PREC051: low precision is faster, op by op."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding, Place, Severity
from reefwatch.core.record import Case, Event

SLOWER = Tolerance(
    1.1, "t(16 bit) / t(fp32)", "a tenth, and three times the spread, may be the machine's own"
)
APART = Tolerance(
    2.0, "t(bf16) / t(fp16)", "both move the same bytes and have the same peak on all known cards"
)
_ROW: dict[str, Any] = {
    "op": "aten.convolution.default",
    "kind": "conv",
    "shapes": [[8, 64, 56, 56], [64, 64, 3, 3]],
    "dtype": "bf16",
    "device": "cuda:0",
    "module": "layer1.0.conv1",
    "file": "/model.py",
    "line": 12,
    "calls": 3,
    "seconds": {"f32": 0.004, "bf16": 0.002, "f16": 0.002},
    "spread": {"f32": 0.01, "bf16": 0.01, "f16": 0.01},
    "errors": {},
    "ratio": {"bf16": 2.0, "f16": 2.0},
    "small": False,
}


def _case(bf16: float, claim: str = "bf16-mixed", **more: Any) -> Case:
    row = _ROW | {"seconds": _ROW["seconds"] | {"bf16": bf16}} | more
    return Case.of(
        Event("precision.signature", row, id="0"),
        precision__signatures={"timed": 1, "of": 1},
        claim__precision=claim,
    )


def _covers(case: Case) -> tuple[Coverage, ...]:
    told = case.value("precision.signatures")
    return (Coverage("costliest ops", told["timed"], told["of"]),) if told else ()


@check(
    "PREC051",
    Severity.WARNING,
    needs=("precision.signatures",),
    when=("precision.signatures",),
    covers=_covers,
    good=(
        _case(0.002),
        _case(0.0039),
        _case(0.009, small=True),
        _case(0.005, spread={"bf16": 0.2}),
        _case(0.005, dtype="f32", claim="fp16-mixed"),
    ),
    bad=(
        _case(0.005),
        _case(0.005, dtype="f32"),
        _case(0.0038, seconds={"f32": 0.004, "bf16": 0.0038, "f16": 0.0014}),
    ),
)
def signatures(case: Case) -> Iterator[Finding]:
    """The costliest ops are faster in 16 bits than in fp32, and as fast in bf16 as in fp16.

    Each was run alone on operands of the same shapes, in turn in fp32, bf16 and fp16; an op that
    the run has in 16 bits is judged in that dtype, one in fp32 in the claimed one, or in both
    where no 16 bits are claimed. Ops as short as a launch tell nothing and are left out.

    Why: half the bytes take half the time, and matrix units are faster still. Slower than fp32
    means that the low dtype is emulated (cast there and back) or has a naive kernel; bf16 far
    slower than fp16 means that the library has a kernel for the one and none for the other.
    Fix: run that op in the faster dtype; compare `reefwatch trace` for the kernel's name.
    Source: https://github.com/pytorch/pytorch/issues/86270,
    https://github.com/ROCm/legacy-rocm-build/issues/5514
    """
    claim = str(case.known("claim.precision") or "")
    for event in case.rows("precision.signature"):
        row = event.data
        if row["small"]:
            continue
        times: Mapping[str, float] = row["seconds"]
        for dtype in _judged(row["dtype"], claim):
            if _slower(row, dtype, "f32", SLOWER):
                yield _finding(row, dtype, "f32", "it is emulated there, or runs on a naive kernel")
        apart = "bf16" in _judged(row["dtype"], claim) and _slower(row, "bf16", "f16", APART)
        if apart and not _slower(row, "bf16", "f32", SLOWER):
            yield _finding(row, "bf16", "f16", "the library has no kernel of that kind for bf16")
        for dtype, error in row["errors"].items():
            if dtype == row["dtype"] and times:
                yield _missing(row, dtype, error)


def _judged(dtype: str, claim: str) -> tuple[str, ...]:
    """The low dtypes that the run has or asks for."""
    if dtype in ("bf16", "f16"):
        return (dtype,)
    both = ("bf16", "f16")
    names = {"bf16": "bf16", "f16": "fp16"}
    return tuple(low for low in both if claim.startswith(names[low])) or both


def _slower(row: Mapping[str, Any], low: str, than: str, limit: Tolerance) -> bool:
    times, noise = row["seconds"], row["spread"]
    if low not in times or not times.get(than):
        return False
    room = 3 * max(noise.get(low, 0.0), noise.get(than, 0.0))
    return limit.exceeded_by(times[low] / times[than] / (1 + room))


def _finding(row: Mapping[str, Any], low: str, than: str, why: str) -> Finding:
    times = row["seconds"]
    shapes = " x ".join(str(shape) for shape in row["shapes"][:2])
    return Finding(
        f"{row['op']} takes {times[low] / times[than]:.2f} times as long in {low} as in {than}",
        (
            Evidence(f"seconds in {low}", times[low], "s", f"timed on {row['device']}"),
            Evidence(f"seconds in {than}", times[than], "s", f"timed on {row['device']}"),
            Evidence("shapes", shapes),
        ),
        Place(row["module"], row["op"], row["file"], row["line"]),
        why=why,
        cost=f"{(times[low] - times[than]) * row['calls'] * 1e3:.3g} ms a step",
        fix=f"run it in {than}, or compare another layout or version",
    )


def _missing(row: Mapping[str, Any], dtype: str, error: str) -> Finding:
    return Finding(
        f"{row['op']} cannot be run alone in {dtype}",
        (Evidence("error", error, source="torch"),),
        Place(row["module"], row["op"], row["file"], row["line"]),
        why="the operands of the step were of another kind, or the kernel is missing",
    )
