"""Which way scaled dot product attention went, and why not a fused one.

A fused path is one op. The math path dissolves into products around `_safe_softmax`, which torch
uses nowhere else; all its ops are dispatched from one frame at one instruction, and among them are
the user's own q and k, the mask and the dropout. Nothing is asked of torch while the run goes on:
its answer to "why not" is a warning. It is asked at the end, with empty tensors of the same kind.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from reefwatch.core.dtypes import LOW
from reefwatch.core.fact import Evidence, Unknown
from reefwatch.gather.dtypes import short
from reefwatch.gather.instrument import Instrument, Tools

FUSED = {
    "_scaled_dot_product_flash_attention": "flash",
    "_scaled_dot_product_flash_attention_for_cpu": "flash",
    "_scaled_dot_product_efficient_attention": "efficient",
    "_scaled_dot_product_cudnn_attention": "cudnn",
    "_scaled_dot_product_fused_attention_overrideable": "fused",
}
CHOICES = {0: "math", 1: "flash", 2: "efficient", 3: "cudnn", 4: "fused"}
"""What `torch._fused_sdp_choice` returns (ATen/native/transformers/sdp_utils_cpp.h)."""
LONGEST = 48
"""Ops of one call that are kept; the math path takes about thirty."""
_ASKED = 16
"""Signatures that torch is asked about at the end."""


class Call:
    """The ops of one call of the program, as far as attention needs them."""

    def __init__(self) -> None:
        self.scaled: list[tuple[tuple[int, ...], str, str]] = []
        self.cast_from = ""
        self.mask = ""
        self.causal = self.dropout = self.softmax = False
        self.site: Any = None
        self.ops = 0
        self.done = False
        """Its second product has run: what comes next may be the next turn of a loop."""
        self.next_cast = ""


class Attention(Instrument):
    """Counts paths; one row for each place, path and kind of operands."""

    name = "precision.attention"
    contract = "precision"
    wants_ops = True

    def __init__(self) -> None:
        self._rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._at: tuple[int, int] | None = None
        self._call = Call()
        self._examined = 0

    def arm(self, tools: Tools) -> None:
        self._tools = tools
        self._tensor = tools.torch.Tensor

    def on_op(self, call: Any) -> None:
        if call.phase == "backward":
            return
        base = call.name.partition(".")[2].partition(".")[0]
        path = FUSED.get(base)
        if path is not None:
            q, k = call.args[0], call.args[1]
            self._add(call.site, path, q, tuple(q.shape), tuple(k.shape), "", None, None)
            return
        at = (call.frame, call.lasti)
        if at != self._at:
            self._settle()
            self._at = at if call.frame else None
        if self._at is not None and self._call.ops < LONGEST:
            self._look(base, call)

    def _look(self, base: str, call: Any) -> None:
        seen = self._call
        first = call.args[0] if call.args and isinstance(call.args[0], self._tensor) else None
        if seen.done and base in ("mul", "ones", "scalar_tensor"):
            cast = seen.next_cast
            self._settle()
            seen = self._call
            seen.cast_from = cast
        seen.ops += 1
        if base == "_to_copy" and first is not None:
            kind = short(first.dtype)
            if seen.done and kind in LOW:
                seen.next_cast = kind
            elif not seen.scaled:
                seen.cast_from = seen.cast_from or kind
        elif base == "mul" and first is not None and first.dim() >= 3 and not seen.softmax:
            seen.scaled.append((tuple(first.shape), short(first.dtype), first.device.type))
        elif base == "tril":
            seen.causal = True
        elif base in ("add", "add_") and not seen.softmax and len(call.args) > 1:
            other = call.args[1]
            seen.mask = short(other.dtype) if isinstance(other, self._tensor) else ""
        elif base == "_safe_softmax":
            seen.softmax, seen.site = True, call.site
        elif base == "bernoulli_" and seen.softmax:
            seen.dropout = True
        elif base in ("bmm", "mm", "matmul") and seen.softmax:
            seen.done = True

    def _settle(self) -> None:
        """The call is over: was it attention on the math path?"""
        seen, self._call = self._call, Call()
        if not seen.softmax or len(seen.scaled) < 2:
            return
        (q, dtype, device), (k, _, _) = seen.scaled[:2]
        keys = (*k[:-2], k[-1], k[-2])  # k was transposed before
        kind = (seen.cast_from or dtype, device)
        mask = "" if seen.causal else seen.mask
        self._add(seen.site, "math", kind, q, keys, mask, seen.causal, seen.dropout)

    def _add(
        self,
        site: Any,
        path: str,
        kind: Any,
        q: tuple[int, ...],
        k: tuple[int, ...],
        mask: str,
        causal: bool | None,
        dropout: bool | None,
    ) -> None:
        dtype, device = kind if isinstance(kind, tuple) else (short(kind.dtype), kind.device.type)
        key = (site, path, q, k, dtype, mask, causal, dropout)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = {
                "path": path,
                "q": list(q),
                "k": list(k),
                "dtype": dtype,
                "device": device,
                "mask": mask,
                "causal": causal,
                "dropout": dropout,
                "calls": 0,
                "module": site.module,
                "file": site.file,
                "line": site.line,
                "reasons": [],
                "choice": "",
            }
        row["calls"] += 1

    def close(self, step: int) -> bool:
        self._settle()
        self._at = None
        self._examined += 1
        return False

    def disarm(self) -> None:
        self._settle()
        math = [row for row in self._rows.values() if row["path"] == "math"]
        for row in math[:_ASKED]:
            row["reasons"] = known_reasons(row)
            row["choice"], told = asked(self._tools.torch, row)
            row["reasons"] += told
        sink = self._tools.sink
        for number, row in enumerate(self._rows.values()):
            sink.event("precision.attention", row, id=str(number))
        paths: dict[str, int] = {}
        for row in self._rows.values():
            paths[row["path"]] = paths.get(row["path"], 0) + row["calls"]
        name = "precision.attention"
        if not self._examined:
            sink.fact(name, Unknown("no step was examined at op level"))
        elif paths:
            sink.fact(name, Evidence(name, paths, "calls", "dispatch"))
        else:
            sink.fact(name, Evidence(name, False, source="no attention was seen"))


def known_reasons(row: Mapping[str, Any]) -> list[str]:
    """What the gates of `sdp_utils` say of these operands; read, not asked."""
    reasons = []
    if row["device"] == "cpu":
        return ["dropout is on, and the CPU's kernel has none"] if row["dropout"] else []
    if row["dtype"] in ("f32", "f64"):
        reasons.append(f"q is {row['dtype']}: flash takes 16 bits only (autocast off?)")
    if row["mask"]:
        reasons.append("there is a mask, which flash does not take")
        if row["mask"] not in ("bool", row["dtype"]):
            reasons.append(
                f"the mask is {row['mask']}, q is {row['dtype']}: memory-efficient wants one dtype"
            )
    size = row["q"][-1]
    if size % 8:
        reasons.append(f"head size {size} is no multiple of 8")
    return reasons


def asked(torch: Any, row: Mapping[str, Any]) -> tuple[str, list[str]]:
    """(what torch would choose, its own reasons against the fused paths) for such operands.

    The batch is cut to one: no gate looks at it. Both are empty where that cannot be asked.
    """
    dtypes = {"f32": "float32", "f64": "float64", "bf16": "bfloat16", "f16": "float16"}
    try:
        kind = {"dtype": getattr(torch, dtypes[row["dtype"]]), "device": row["device"]}
        q = torch.empty((1, *row["q"][1:]), **kind)
        k = torch.empty((1, *row["k"][1:]), **kind)
        dropout, causal = 0.1 if row["dropout"] else 0.0, bool(row["causal"])
        choice = torch._fused_sdp_choice(q, k, k, None, dropout, causal)
        if row["mask"]:  # the mask itself was not kept
            choice = None
        return CHOICES.get(choice, ""), _refusals(torch, q, k, dropout, causal)
    except Exception:  # no memory left, or another version of torch
        return "", []


def _refusals(torch: Any, q: Any, k: Any, dropout: float, causal: bool) -> list[str]:
    backends = torch.backends.cuda
    if q.device.type == "cpu":
        return []
    params = backends.SDPAParams(q, k, k, None, dropout, causal, False)
    told: list[str] = []

    def keep(message: Any, *rest: Any, **more: Any) -> None:
        told.append(str(message).partition(" (Triggered")[0])

    # catch_warnings would make Python forget which warnings it has shown; this does not
    shown = warnings.showwarning
    warnings.showwarning = keep
    try:
        for gate in ("can_use_flash_attention", "can_use_efficient_attention"):
            getattr(backends, gate)(params, True)
    finally:
        warnings.showwarning = shown
        globals().pop("__warningregistry__", None)  # so that it can be told again
    return list(dict.fromkeys(told))[:6]
