"""Products inside compiled code, by dtype: read from the code that Inductor generated.

The op layer does not look inside compiled code. What Inductor wrote for it lies in files of its
cache, loaded as modules; these are read when the run is over, and nothing is traced or compiled.
Which of them ran, and how often, the code does not tell.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from reefwatch.core.fact import Evidence
from reefwatch.gather.dtypes import short
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.precision.arithmetic import kind_of

FILES = 500
"""Files that are read at most: of a run that compiled without an end, the first."""
_MADE = re.compile(r"^\s*(\w+) = empty_strided\w*\(.*, torch\.(\w+)\)$")
_REUSED = re.compile(r"^\s*(\w+) = (?:reinterpret_tensor\()?(\w+)[,;]")
_NODES = re.compile(r"^\s*# Topologically Sorted Source Nodes: \[(.*?)\], Original ATen: \[(.*)\]")
_CALL = re.compile(
    r"^\s*(?:(\w+) = )?(?:extern_kernels\.|torch\.ops\.(?:aten|mkldnn|mkl)\.)"
    r"(_?\w+?)(?:\.\w+)?\((.*)\)$"
)
_OUT = re.compile(r"\bout=(\w+)")
_NAMES = re.compile(r"\b[A-Za-z_]\w*\b")
_TEMPLATE = re.compile(
    r"@triton_heuristics\.template\(.*?'signature': \{(.*?)\}.*?\ndef (triton_\w+)\(", re.DOTALL
)
_POINTER = re.compile(r"'\*(\w+)'")
_POINTERS = {"bf16": "bf16", "fp16": "f16", "fp32": "f32", "fp64": "f64"}
_FUSED = {
    "_linear_pointwise": "addmm",
    "_mkl_linear": "addmm",
    "_convolution_pointwise": "convolution",
    "_convolution_pointwise_": "convolution",
    "_convolution_transpose_pointwise": "convolution",
}
"""oneDNN's calls, with the op that each stands for."""


@dataclass(frozen=True)
class Product:
    """One matmul or convolution that generated code calls."""

    op: str
    dtype: str
    """Of its result, or of an operand; "unknown" where the code tells neither."""
    nodes: str
    """The values in the user's code that it was made from, as Inductor notes them."""


def products(code: str, dtypes: dict[str, str]) -> Iterator[Product]:
    """The products of one generated file; `dtypes` gives short names of torch's dtypes."""
    known: dict[str, str] = {}
    nodes = ""
    for line in code.splitlines():
        if made := _MADE.match(line):
            known[made[1]] = dtypes.get(made[2], "unknown")
        elif noted := _NODES.match(line):
            nodes = noted[1]
        elif called := _CALL.match(line):
            name = _FUSED.get(called[2], called[2])
            if kind_of(f"aten.{name}.default")[0] in ("matmul", "conv"):
                dtype = _dtype(called[3], known)
                if called[1] and dtype != "unknown":
                    known[called[1]] = dtype
                yield Product(f"aten.{name}", dtype, nodes)
        elif (reused := _REUSED.match(line)) and reused[2] in known:
            known[reused[1]] = known[reused[2]]
    for signature, name in _TEMPLATE.findall(code):
        first = _POINTER.search(signature)
        word = _POINTERS.get(first[1], "unknown") if first else "unknown"
        yield Product("triton template", word, name)


def _dtype(arguments: str, known: dict[str, str]) -> str:
    """That of `out=`, else of the first argument that was made in this file."""
    out = _OUT.search(arguments)
    names = ([out[1]] if out else []) + _NAMES.findall(arguments)
    return next((known[name] for name in names if name in known), "unknown")


class Generated(Instrument):
    """Reads Inductor's files once, at the end."""

    name = "precision.generated"
    contract = "precision"

    def arm(self, tools: Tools) -> None:
        self._tools = tools

    def disarm(self) -> None:
        sink, torch = self._tools.sink, self._tools.torch
        files = list(_files())
        if not files:
            why = "Inductor generated no code"
            sink.fact("precision.generated", Evidence("precision.generated", False, source=why))
            return
        dtypes = {
            name: short(value)
            for name, value in vars(torch).items()
            if isinstance(value, torch.dtype)
        }
        counted: dict[str, int] = {}
        rows: dict[Product, int] = {}
        for code in files[:FILES]:
            for product in products(code, dtypes):
                rows[product] = rows.get(product, 0) + 1
                counted[product.dtype] = counted.get(product.dtype, 0) + 1
        for number, (product, times) in enumerate(rows.items()):
            data: dict[str, Any] = {"op": product.op, "dtype": product.dtype}
            sink.event(
                "precision.generated",
                {**data, "nodes": product.nodes, "times": times},
                id=str(number),
            )
        told: dict[str, Any] = {
            "files": len(files),
            "read": min(len(files), FILES),
            "products": counted,
        }
        sink.fact("precision.generated", Evidence("precision.generated", told, source="Inductor"))


def _files() -> Iterator[str]:
    """The text of every generated file that this process loaded."""
    cache = getattr(sys.modules.get("torch._inductor.codecache"), "PyCodeCache", None)
    loaded = getattr(cache, "modules", ())
    for module in list(loaded.values() if isinstance(loaded, dict) else loaded):
        try:
            with open(module.__file__, encoding="utf-8") as file:
                yield file.read()
        except (OSError, TypeError, AttributeError, UnicodeDecodeError):
            continue
