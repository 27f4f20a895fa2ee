"""Whether a family can apply to a machine, as far as its facts tell."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from reefwatch.triage.family import Family

_GFX = re.compile(r"\bgfx[0-9a-f]{3,4}\b")


def facts(document: Any) -> dict[str, Any]:
    """What matters here of a document of `reefwatch doctor --json`: archs, gpus, vendor, wsl.

    The document is searched for what it says, not for where it says it: a key that is not there
    rules nothing out.
    """
    told = _values(document)
    cards = [told[name] for name in ("gpus", "other_gpus") if isinstance(told.get(name), list)]
    text = json.dumps(cards or document)  # a list of what a wheel was built for is no card
    archs = sorted(set(_GFX.findall(text)))
    found: dict[str, Any] = {}
    if archs:
        found["archs"] = archs
    for key, names in (("gpus", ("gpu_count", "gpus", "cards", "agents")),):
        for name in names:
            value = told.get(name)
            if isinstance(value, int) and not isinstance(value, bool):
                found.setdefault(key, value)
            elif isinstance(value, list):
                found.setdefault(key, len(value))
    if isinstance(told.get("wsl"), bool):
        found["wsl"] = told["wsl"]
    if archs:
        found["vendor"] = "amd"
    elif re.search(r"\bNVIDIA\b", text):
        found["vendor"] = "nvidia"
    return found


def _values(document: Any) -> dict[str, Any]:
    """Every value by the last part of its key, the first one met."""
    found: dict[str, Any] = {}
    waiting = [document]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, Mapping):
            for key, value in node.items():
                last = str(key).rpartition(".")[2].lower()
                plain = (
                    value.get("value") if isinstance(value, Mapping) and "value" in value else value
                )
                found.setdefault(last, plain)
                waiting.append(value)
        elif isinstance(node, list):
            waiting.extend(node)
    return found


def ruled_out(family: Family, machine: Mapping[str, Any] | None, seen: Sequence[str]) -> str:
    """Why the family cannot be it, "" when it can. The architectures that the log names come first:
    it may have been written on another machine.
    """
    only = family.only or {}
    archs = list(seen) or list((machine or {}).get("archs", ()))
    wanted = only.get("archs")
    if wanted and archs and not any(re.fullmatch(w, a) for w in wanted for a in archs):
        return f"only on {', '.join(wanted)}; here is {', '.join(archs[:4])}"
    if machine is None:
        return ""
    if only.get("gpus") and machine.get("gpus", only["gpus"]) < only["gpus"]:
        return f"needs {only['gpus']} GPUs; here is {machine['gpus']}"
    if only.get("vendor") and machine.get("vendor", only["vendor"]) != only["vendor"] and not seen:
        return f"only on {only['vendor']} cards; here is {machine['vendor']}"
    if "wsl" in only and machine.get("wsl", only["wsl"]) != only["wsl"]:
        return "only in WSL" if only["wsl"] else "not in WSL"
    return ""
