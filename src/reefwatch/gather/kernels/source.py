"""A launch as text: the kernel with all that it calls, and its inputs."""

from __future__ import annotations

import inspect
import os
import textwrap
from typing import Any

LARGEST = 64
"""Elements of a tensor that are written out; larger ones are made anew at random."""


def named(jit: Any, unit: str = "") -> dict[str, Any]:
    """The kernel's name with its module, its file and its first line."""
    code = getattr(jit.fn, "__code__", None)
    module = getattr(jit.fn, "__module__", "") or ""
    name = jit.fn.__name__
    return {
        "kernel": name if module in ("", "__main__", unit) else f"{module}.{name}",
        "name": name,
        "file": "" if code is None else os.path.abspath(code.co_filename),
        "line": 0 if code is None else code.co_firstlineno,
    }


def of(jit: Any, _seen: set[int] | None = None) -> str:
    """The source of a kernel, behind that of the functions and constants that it uses."""
    seen = set() if _seen is None else _seen
    seen.add(id(jit))
    parts = []
    space = jit.fn.__globals__
    for name in _names(jit.fn.__code__):
        value = space.get(name)
        if hasattr(value, "fn") and hasattr(value.fn, "__code__"):
            if id(value) not in seen and not value.fn.__module__.startswith("triton."):
                parts.append(of(value, seen))
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            parts.append(f"{name} = {value!r}")
        elif type(value).__name__ == "constexpr":
            parts.append(f"{name} = tl.constexpr({value.value!r})")
    try:
        own = textwrap.dedent(inspect.getsource(jit.fn)).rstrip()
    except OSError:
        return ""
    lines = own.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("def "))
    parts.append("\n".join(["@triton.jit", *lines[first:]]))
    return "\n\n\n".join(dict.fromkeys(parts))


def _names(code: Any) -> list[str]:
    nested = [const for const in code.co_consts if inspect.iscode(const)]
    return [*code.co_names, *(name for one in nested for name in _names(one))]


def inputs(torch: Any, call: Any, arguments: Any) -> list[tuple[str, str]]:
    """(name, expression) of each argument, as it was before the launch."""
    signature = inspect.signature(call.jit.fn)
    named = {k: v for k, v in call.kwargs.items() if k in signature.parameters}
    bound = signature.bind(*call.args, **named)
    bound.apply_defaults()
    return [(name, _expression(torch, value)) for name, value in bound.arguments.items()]


def _expression(torch: Any, value: Any) -> str:
    if not hasattr(value, "untyped_storage"):
        return repr(getattr(value, "value", value))
    dtype, shape = value.dtype, tuple(value.shape)
    if value.numel() <= LARGEST:
        plain = value.detach()
        if dtype.is_floating_point:
            plain = plain.double()
        return f"torch.tensor({plain.tolist()!r}, dtype={dtype}, device=device)"
    if dtype.is_floating_point:
        return f"torch.randn({shape}, device=device).to({dtype})"
    low, high = int(value.min()), int(value.max()) + 1
    return f"torch.randint({low}, {high}, {shape}, device=device).to({dtype})"
