"""The facts that the audit writes: totals over its rows, and how much of the run they cover."""

from __future__ import annotations

import sys
from typing import Any

from reefwatch.core.dtypes import FLOATS
from reefwatch.core.fact import Evidence, Unknown
from reefwatch.gather.ops import OTHER_THREADS
from reefwatch.gather.precision.claim import claim_of

_NOT_ASKED = {
    "precision.variants": "`reefwatch precision` was not run",
    "precision.fits": "no --fits was given",
}
Facts = dict[str, "Evidence | Unknown"]


def facts_of(audit: Any) -> Facts:
    """The facts of the section Precision of docs/record.md, by name."""
    facts: Facts = {}
    if audit.examined:
        facts["precision.ops"] = Evidence("precision.ops", _coverage(audit))
    else:
        facts["precision.ops"] = Unknown("no step was examined at op level")
    facts["precision.saved"] = (
        Evidence("precision.saved", dict(audit.saved), "bytes", "weak storage references")
        if audit.saved
        else Unknown("no backward was seen in an examined step")
    )
    if audit.state.param:
        facts["precision.state"] = Evidence("precision.state", audit.state.as_dict(), "bytes")
    else:
        facts["precision.state"] = Unknown("no optimizer update was seen in an examined step")
    if audit.flags:
        facts["precision.flags"] = Evidence("precision.flags", audit.flags)
    facts.update(_flops(audit))
    facts.update(audit.updates.facts())
    facts.update(audit.asked.facts())
    for name, why in _NOT_ASKED.items():  # an experiment writes over them
        facts[name] = Evidence(name, None, source=why)
    if not audit.tools.options.get("claim"):
        seen = {dtype for _, dtype in audit.regions.seen}
        sites = [row.site for row in audit.rows.values()] if audit.examined else []
        facts["claim.precision"] = claim_of(seen, sites, bool(audit.compiled_calls))
    return facts


def _flops(audit: Any) -> Facts:
    """Flops of matmul and convolution by dtype, in all and inside regions; the regions seen."""
    all_: dict[str, int] = {}
    inside: dict[str, int] = {}
    for row in audit.rows.values():
        if row.kind in ("matmul", "conv"):
            dtype = next((d for d in row.ins if d in FLOATS), "other")
            all_[dtype] = all_.get(dtype, 0) + row.flops
            if row.site.region is not None:
                inside[dtype] = inside.get(dtype, 0) + row.flops
    regions: dict[str, dict[str, int]] = {}
    for (device, dtype), count in audit.regions.seen.items():
        regions.setdefault(device, {})[dtype] = count
    autocast: dict[str, Any] = {
        "regions": regions,
        "devices": sorted(audit.devices),
        "inside": bool(inside),
    }
    nothing = "no matmul or convolution was seen"
    hidden = " outside of compiled code" if audit.compiled_calls else ""
    facts: Facts = {
        "precision.compute": Evidence("precision.compute", all_, "flops", "dispatch")
        if all_
        else Unknown(f"{nothing}{hidden} in an examined step"),
        "precision.region": Evidence("precision.region", inside, "flops", "dispatch")
        if inside
        else Unknown(f"{nothing} inside an autocast region{hidden} in an examined step"),
        "precision.autocast": Evidence("precision.autocast", autocast),
    }
    if not all_:
        facts["precision.autocast"] = facts["precision.compute"]
    elif not inside and audit.layer is not None and OTHER_THREADS in audit.layer.unseen:
        why = "other threads trained, and autocast may have been entered in them"
        facts["precision.autocast"] = Unknown(why)
    elif audit.compiled_calls and not inside:
        why = "compiled code ran, and autocast may have been entered inside it"
        facts["precision.autocast"] = Unknown(why)
    return facts


def _coverage(audit: Any) -> dict[str, Any]:
    layer = audit.layer
    with_weights: set[str] = set()
    unseen: list[str] = []
    if layer is not None:
        with_weights = layer.modules.weighted
        unseen.extend(layer.unseen)
    unseen.extend(_unseen(audit))
    return {
        "steps": audit.examined,
        "steps_of": max(audit.of, audit.examined),
        "ops": sum(row.calls for row in audit.rows.values()),
        "modules_seen": len(with_weights & audit.seen_modules),
        "modules_total": len(with_weights),
        "compiled_calls": audit.compiled_calls,
        "unseen": unseen,
    }


def _unseen(audit: Any) -> list[str]:
    reasons = []
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is not None:
        graphs = int(dynamo.utils.counters["stats"].get("unique_graphs", 0))
        if graphs:
            audit.compiled_calls = graphs
            reasons.append(f"inside {graphs} compiled graphs")
    if audit.orphans:
        what = f"the forward of {audit.orphans} products whose backward was seen"
        reasons.append(f"{what} (another thread, or an earlier step)")
    return reasons
