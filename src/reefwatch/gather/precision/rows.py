"""The table of ops: one row per op, dtypes, place and cause, with totals."""

from __future__ import annotations

from typing import Any


class Row:
    """Totals of one op at one site. `root` is the row whose fp32 it inherits, or itself."""

    __slots__ = (
        "bytes",
        "calls",
        "cause",
        "floats",
        "flops",
        "formula",
        "ins",
        "keeps",
        "kind",
        "makes",
        "name",
        "number",
        "origin",
        "outs",
        "recasts",
        "root",
        "site",
        "written",
    )

    def __init__(self, number: int, name: str, kind: str, formula: Any, site: Any) -> None:
        self.number = number
        self.name = name
        self.kind = kind
        self.formula = formula
        self.site = site
        self.ins: tuple[str, ...] = ()
        self.outs: tuple[str, ...] = ()
        self.cause: str | None = None
        self.origin = ""
        self.root: Row = self
        self.makes = False
        self.floats = False
        self.keeps = site.phase in ("forward", "setup")
        self.calls = self.flops = self.bytes = self.recasts = self.written = 0

    def as_dict(self) -> dict[str, Any]:
        """The data of a `precision.op` event."""
        site = self.site
        return {
            "op": self.name,
            "kind": self.kind,
            "in": list(self.ins),
            "out": list(self.outs),
            "module": site.module,
            "file": site.file,
            "line": site.line,
            "caller": site.caller,
            "phase": site.phase,
            "autocast": site.autocast,
            "region": site.region,
            "cause": self.cause,
            "compiled": site.compiled,
            "origin": self.origin,
            "calls": self.calls,
            "recasts": self.recasts,
            "flops": self.flops,
            "bytes": self.bytes,
        }
