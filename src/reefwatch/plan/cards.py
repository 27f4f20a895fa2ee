"""Which card is meant: by name, target or PCI id."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from reefwatch.data import targets
from reefwatch.plan import nvidia
from reefwatch.plan.sets import Conflict, Wishes

_AMD = re.compile(r"\b(?:amd|radeon|instinct|rx|mi\d{2,3}\w?|gfx\w+)\b", re.IGNORECASE)
_NOISE = re.compile(r"\b(amd|radeon|instinct|graphics|pro|ai|gpu)\b|[^a-z0-9]+")


def resolve(wishes: Wishes, gpus: Mapping[str, Any]) -> Wishes | Conflict:
    """The wishes with vendor and target known."""
    text = wishes.gpu.strip()
    if wishes.vendor != "amd" or text.lower() in ("cpu", "none"):
        return replace(wishes, vendor="cpu" if text.lower() in ("cpu", "none") else wishes.vendor)
    if not text:
        return Conflict("no card", "no card is named and none is seen here; --gpu names one")
    target = targets.asked(text)
    if target is not None and (text.lower().startswith("gfx")):
        return replace(wishes, gfx=targets.plain(target))
    found = _by_name(text, gpus["gpu"]) or _by_id(text, gpus["gpu"])
    archs = {row["arch"] for row in found}
    if len(archs) == 1:
        name = found[0]["name"] if len(found) == 1 else text
        return replace(wishes, gpu=name, gfx=archs.pop())
    if len(archs) > 1:
        names = ", ".join(f"{row['name']} ({row['arch']})" for row in found[:6])
        return Conflict("card", f"{text!r} can be several cards: {names}")
    if re.search(r"\b(?:intel|arc)\b", text, re.IGNORECASE):
        return Conflict("card", f"{text!r} is an Intel card: the tables know none")
    if text.lower() in nvidia.ANY or nvidia.find(text, gpus["nvidia"]) is not None:
        return replace(wishes, vendor="nvidia")
    if nvidia.looks(text):
        if _AMD.search(text):
            return Conflict("card", f"{text!r} names cards of two vendors: a plan is for one")
        near = nvidia.near(text, gpus["nvidia"])
        hint = f"; near: {', '.join(near)}" if near else ""
        words = f"{text!r} is no NVIDIA card that the tables know{hint}"
        return Conflict("card", f"{words}; `--gpu NVIDIA` plans for one that they do not name")
    short = {_short(row["name"]): row["name"] for row in gpus["gpu"]}
    near = [short[name] for name in get_close_matches(_short(text), short, n=3, cutoff=0.5)]
    hint = f"; near: {', '.join(near)}" if near else ""
    return Conflict("card", f"{text!r} is in no table{hint}; a target such as gfx1100 also works")


def _by_name(text: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cards of that name, else those in whose names its words stand: `RX 7900`, not `RX 79`."""
    wanted = _short(text)
    exact = [row for row in rows if wanted == _short(row["name"]) or wanted in _each(row["name"])]
    if exact or len(wanted) < 3:
        return exact
    words = _words(text)
    return [row for row in rows if _within(words, _words(row["name"]))]


def _words(name: str) -> list[str]:
    """`RX7900 XTX` as rx, 7900, xtx."""
    return re.findall(r"[a-z]+|[0-9]+", _NOISE.sub(" ", name.lower()))


def _within(words: list[str], name: list[str]) -> bool:
    return any(name[at : at + len(words)] == words for at in range(len(name)))


def _by_id(text: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = re.fullmatch(r"(?:1002:)?(?:0x)?([0-9a-f]{4})", text.lower())
    if found is None:
        return []
    return [row for row in rows if any(one["device"] == f"0x{found[1]}" for one in row["pci"])]


def _short(name: str) -> str:
    return _NOISE.sub("", name.lower())


def _each(name: str) -> list[str]:
    """The names in one row: `MI50 / MI60`, `780M / 760M (Phoenix)`."""
    outer, _, inner = name.partition("(")
    parts = [*outer.split("/"), *inner.rstrip(")").split("/")]
    return [_short(part) for part in parts if _short(part)]
