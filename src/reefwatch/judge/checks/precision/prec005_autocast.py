"""PREC005: the autocast that ran is the one that is claimed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.dtypes import LOW
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Place, Severity
from reefwatch.core.record import Case
from reefwatch.judge.precision_claims import (
    MIXED,
    claimed,
    compute_rows,
    covers,
    promise,
)


def _case(claim: str, regions: dict[str, Any], devices: list[str], inside: bool = True) -> Case:
    seen = {"regions": regions, "devices": devices, "inside": inside}
    return Case.of(claim__precision=claim, precision__autocast=seen)


@check(
    "PREC005",
    Severity.ERROR,
    needs=("claim.precision", "precision.autocast"),
    when=(MIXED,),
    covers=covers,
    good=(
        _case("bf16-mixed", {"cuda": {"bf16": 3}}, ["cuda"]),
        _case("fp16-mixed", {"cuda": {"f16": 3}, "cpu": {"bf16": 1}}, ["cuda"]),
    ),
    bad=(
        _case("bf16-mixed", {}, ["cpu"], False),
        _case("bf16-mixed", {"cuda": {"f16": 3}}, ["cuda"]),
        _case("bf16-mixed", {"cuda": {"bf16": 3}}, ["cpu"], False),
        _case("bf16-mixed", {"cpu": {"bf16": 3}}, ["cpu"], False),
    ),
)
def autocast_claimed(case: Case) -> Iterator[Finding]:
    """Autocast is entered, with the claimed dtype, for the device that computes.

    Looks at every autocast region that was entered, examined steps or not.

    Why: `torch.autocast("cuda")` without a dtype is fp16, not bf16; a region for "cuda" does
    nothing for tensors on the CPU; a forward called outside the region runs in fp32, and
    nothing warns.
    Fix: `torch.autocast(device_type, dtype=torch.bfloat16)` around the forward and the loss,
    with the device type of the model.
    Source: https://docs.pytorch.org/docs/stable/amp.html#torch.autocast
    """
    seen: dict[str, Any] = case.value("precision.autocast")
    regions: dict[str, dict[str, int]] = seen["regions"]
    devices: list[str] = seen["devices"]
    evidence = (Evidence("autocast regions", regions, source="torch.autocast"),)
    said = claimed(case)
    if not regions:
        yield Finding(
            "autocast was never switched on",
            evidence,
            claimed=said,
            fix="wrap the forward and the loss in torch.autocast",
        )
        return
    wanted = promise(case).compute
    on = {device: kinds for device, kinds in regions.items() if device in devices} or regions
    other = sorted({d for kinds in on.values() for d in kinds if d in LOW and d != wanted})
    if other:
        yield Finding(
            f"autocast ran in {', '.join(other)}",
            evidence,
            _first(case, other),
            claimed=said,
            why="without a dtype, autocast is fp16 on a GPU and bf16 on the CPU",
            fix=f"give the dtype: torch.autocast(..., dtype={wanted})",
        )
    if not set(regions) & set(devices):
        yield Finding(
            f"autocast was entered for {', '.join(sorted(regions))}, and the products ran on "
            f"{', '.join(devices)}",
            evidence,
            claimed=said,
            fix="pass the device type of the model to torch.autocast",
        )
    elif not seen["inside"]:
        yield Finding(
            "autocast was entered, and no matmul or convolution ran inside it",
            evidence,
            claimed=said,
            fix="put the forward inside the autocast region",
        )


def _first(case: Case, dtypes: list[str]) -> Place:
    """The first product in a region of one of these dtypes, where one was examined."""
    for row in compute_rows(case):
        if row["region"] in dtypes and row["phase"] != "backward":
            return Place(row["module"], row["op"], row["file"], row["line"])
    return Place()
