"""Names and targets of cards by their PCI ids, from the shipped table.

One device id can be several products: the revision tells them apart, and where it is not known or
not in the table, all are candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from reefwatch.core.fact import Unknown
from reefwatch.data.tables import Tables


class Products:
    """The table of cards, by device id."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    @cached_property
    def _by_device(self) -> dict[str, list[tuple[str, Mapping[str, Any]]]]:
        found: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
        for row in self._tables.gpus.get("gpu", ()):
            for pci in row.get("pci", ()):
                device = str(pci.get("device", "")).lower().removeprefix("0x")
                revision = str(pci.get("revision", "")).lower().removeprefix("0x")
                found.setdefault(device.zfill(4), []).append((revision, row))
        return found

    @property
    def _arch(self) -> Mapping[str, Any]:
        arch: Mapping[str, Any] = self._tables.gpus.get("arch", {})
        return arch

    def rows(self, device: str, revision: str | Unknown) -> list[Mapping[str, Any]]:
        """The rows that the card may be; more than one where it is not told apart."""
        found = self._by_device.get(device, [])
        if not isinstance(revision, Unknown):
            exact = [row for wanted, row in found if wanted == revision]
            if exact:
                return _distinct(exact)
        return _distinct([row for _, row in found])

    def name(
        self, device: str, revision: str | Unknown, units: int | Unknown
    ) -> str | dict[str, Any]:
        """The product's name, or its candidates, or why it is not known."""
        rows = self.rows(device, revision)
        if not rows:
            return {"unknown": _not_there(device)}
        if len(rows) == 1:
            name = str(rows[0]["name"])
            if isinstance(revision, Unknown) or self._has(device, revision):
                return name
            why = f"device {device} is in the table with other revisions than {revision}"
            return {"candidates": [name], "unknown": why}
        names = [str(row["name"]) for row in rows]
        why = (
            f"device {device} is several products, and the revision is not known"
            if isinstance(revision, Unknown)
            else f"device {device} revision {revision} is several products in the table"
        )
        told: dict[str, Any] = {"candidates": names, "unknown": why}
        fits = [str(row["name"]) for row in rows if row.get("cu") == units]
        if len(fits) == 1:
            told["likely"] = fits[0]
            told["because"] = f"{units} compute units"
        return told

    def _has(self, device: str, revision: str) -> bool:
        """Whether the table lists the revision, or says that any is meant."""
        return any(wanted in ("", revision) for wanted, _ in self._by_device.get(device, ()))

    def gfx(self, device: str) -> str | Unknown:
        """The target by device id, when all products of that id have the same."""
        found = {str(row["arch"]) for _, row in self._by_device.get(device, [])}
        if len(found) == 1:
            return found.pop()
        if found:
            return Unknown(f"device {device} is one of {', '.join(sorted(found))}")
        return Unknown(_not_there(device))

    def integrated(self, device: str, gfx: str) -> bool | Unknown:
        """Whether the card is part of a processor, by the table; Unknown when it is not there."""
        rows = self.rows(device, Unknown("any"))
        if not rows:
            return Unknown(_not_there(device))
        arch = self._arch.get(gfx or str(rows[0]["arch"]), {})
        apus = {bool(row.get("apu")) or "APU" in str(arch.get("family", "")) for row in rows}
        return apus.pop() if len(apus) == 1 else Unknown(f"device {device} is both in the table")

    def wavefront(self, gfx: str) -> int | Unknown:
        wave = self._arch.get(gfx, {}).get("wavefront")
        return wave if isinstance(wave, int) else Unknown(f"{gfx} is not in the table of targets")


def _not_there(device: str) -> str:
    return f"device {device} is not in the table of cards" if device else "its PCI id is not known"


def _distinct(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return list({str(row["name"]): row for row in rows}.values())
