"""A mismatch in the words of the record."""

from __future__ import annotations

from typing import Any


def mismatch(
    number: int, use: Any, call: int, trial: Any, verdict: Any, one: Any
) -> dict[str, Any]:
    """The event `compile.mismatch`; what is looked for after the run is still empty."""
    return {
        "number": number,
        "callable": use.name,
        "file": use.file,
        "line": use.line,
        "call": call,
        "path": one.path,
        "kind": one.kind,
        "text": one.text,
        "error": one.error,
        "allowed": one.allowed,
        "wrong": one.wrong,
        "elements": one.elements,
        "referee": verdict.referee,
        "inputs": [_shape(t) for path, t in trial.world.tensors if path.startswith("args")][:8],
        "backend": use.settings["backend"],
        "twin": False,
        "stage": "",
        "ops": [],
        "module": "",
        "source": "",
        "repro": "",
        "alone": "",
        "why": "",
    }


def _shape(tensor: Any) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
