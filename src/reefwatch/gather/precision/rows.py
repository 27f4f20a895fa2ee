"""The table of ops: one row per op, dtypes, place and cause, with totals."""

from __future__ import annotations

from typing import Any


class Row:
    """Totals of one op at one site. `root` is the row whose fp32 it inherits, or itself.

    `feeds` holds the ops that an upcast goes into, `length` the keys of an attention that ran
    without a fused kernel, `grade` how the cause came to be known.
    """

    __slots__ = (
        "bytes",
        "calls",
        "cause",
        "feeds",
        "floats",
        "flops",
        "formula",
        "grade",
        "ins",
        "keeps",
        "kind",
        "length",
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
        self.grade = "measured"
        self.origin = ""
        self.feeds: set[str] = set()
        self.root: Row = self
        self.makes = False
        self.floats = False
        self.keeps = site.phase in ("forward", "setup")
        self.calls = self.flops = self.bytes = self.recasts = self.written = self.length = 0

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
            "grade": self.grade,
            "compiled": site.compiled,
            "origin": self.origin,
            "root": None if self.root is self else self.root.number,
            "feeds": sorted(self.feeds),
            "length": self.length,
            "calls": self.calls,
            "recasts": self.recasts,
            "flops": self.flops,
            "bytes": self.bytes,
        }

    def saved(self, dtype: str, size: int) -> dict[str, Any]:
        """The data of a `precision.saved_by` event: bytes of `dtype` that it is to thank for."""
        site = self.site
        return {
            "module": site.module,
            "dtype": dtype,
            "bytes": size,
            "op": self.name,
            "cause": self.cause,
            "grade": self.grade,
            "origin": self.origin,
            "feeds": sorted(self.feeds),
            "caller": site.caller,
            "file": site.file,
            "line": site.line,
        }
