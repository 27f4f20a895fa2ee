"""PREC025: the precision that a trainer was asked for is the one that ran."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Place, Severity
from reefwatch.core.record import Case

REGION = {
    "bf16-mixed": "bf16",
    "16-mixed": "f16",
    "bf16": "bf16",
    "fp16": "f16",
    "32-true": "",
    "32": "",
    "64-true": "",
    "no": "",
    "bf16-true": "",
    "16-true": "",
}
"""Per word of Lightning or accelerate, the dtype of the autocast region that it promises."""


def _case(
    asked: dict[str, str], regions: dict[str, Any], fsdp: dict[str, Any] | None = None
) -> Case:
    return Case.of(
        precision__trainer=asked,
        precision__fsdp=fsdp or {},
        precision__autocast={"regions": regions, "devices": ["cuda"], "inside": bool(regions)},
    )


_POLICY = {"layers.0": {"param_dtype": "bf16", "reduce_dtype": "f32"}}


@check(
    "PREC025",
    Severity.ERROR,
    needs=("precision.trainer", "precision.fsdp", "precision.autocast"),
    when=("precision.trainer",),
    good=(
        _case({"lightning": "bf16-mixed"}, {"cuda": {"bf16": 4}}),
        _case({"accelerate": "no"}, {}),
        _case({"lightning": "bf16-true"}, {}),
        _case({"lightning": "bf16-mixed"}, {}, _POLICY),
    ),
    bad=(
        _case({"lightning": "bf16-mixed"}, {}),
        _case({"accelerate": "bf16"}, {"cuda": {"f16": 4}}),
        _case({"lightning": "32-true"}, {"cuda": {"bf16": 4}}),
        _case({"accelerate": "bf16"}, {"cuda": {"bf16": 4}}, _POLICY),
    ),
)
def trainer(case: Case) -> Iterator[Finding]:
    """What Lightning or accelerate was asked for is what ran.

    Reads `Trainer.precision` and accelerate's state as attributes, and compares with the autocast
    regions that were entered and with the policies of FSDP modules.

    Why: a forward called past the trainer's own wrapper, or a strategy that brings its own mixed
    precision, runs in another dtype than the configuration says; autocast inside FSDP modules
    with a `param_dtype` casts everything twice.
    Fix: call the module through the trainer; leave mixed precision to one of autocast and FSDP.
    Source: https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html;
    https://lightning.ai/docs/pytorch/stable/common/precision_basic.html
    """
    regions: dict[str, dict[str, int]] = case.value("precision.autocast")["regions"]
    entered = sorted({d for kinds in regions.values() for d in kinds if d in ("bf16", "f16")})
    policies: dict[str, dict[str, Any]] = case.value("precision.fsdp")
    low = {path: p for path, p in policies.items() if p.get("param_dtype") in ("bf16", "f16")}
    evidence = (Evidence("autocast entered", entered, source="torch.autocast"),)
    for name, asked in case.value("precision.trainer").items():
        wanted = REGION.get(asked)
        said = f"{asked}, by {name}"
        if wanted is None:
            continue
        if wanted and not low and wanted not in entered:
            yield Finding(
                f"{name} was asked for {asked}, and autocast ran "
                + (f"in {', '.join(entered)}" if entered else "nowhere"),
                evidence,
                claimed=said,
                fix="call the model through the trainer, not past it",
            )
        elif not wanted and entered:
            yield Finding(
                f"{name} was asked for {asked}, and autocast ran in {', '.join(entered)}",
                evidence,
                claimed=said,
                fix="leave autocast to the trainer, or ask it for mixed precision",
            )
    if low and entered:
        path, policy = next(iter(low.items()))
        yield Finding(
            f"{len(low)} FSDP modules cast to {policy['param_dtype']}, and autocast is on as well",
            (Evidence("FSDP policies", low, source="attributes"), *evidence),
            Place(path),
            why="both cast: inputs and weights go through two sets of casts",
            fix="leave mixed precision to one of the two",
        )
