"""What an expression or a statement of Python asks: for ROCm, for NVIDIA, for a name."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from reefwatch.gather.machine.port.places import MODULES, ROCM

_NVIDIA_ASKED = re.compile(r"is_cuda|is_nvidia\w*|on_nvidia|has_nvidia\w*|is_cuda_platform")
"""Called: of a tensor `is_cuda` is no call, and true on ROCm."""


def cuda_module(name: str) -> str:
    """The module for CUDA alone that is imported by this name; empty for others."""
    parts = name.split(".")
    for count in (2, 1):
        if ".".join(parts[:count]) in MODULES:
            return ".".join(parts[:count])
    return ""


def is_value(node: ast.expr | None, value: object) -> bool:
    return (
        isinstance(node, ast.Constant) and type(node.value) is type(value) and node.value == value
    )


def is_cuda_version(node: ast.AST) -> bool:
    """`torch.version.cuda`, or `version.cuda` of an import."""
    if not (isinstance(node, ast.Attribute) and node.attr == "cuda"):
        return False
    above = node.value
    return isinstance(above, (ast.Attribute, ast.Name)) and (
        getattr(above, "attr", "") == "version" or getattr(above, "id", "") == "version"
    )


def told_nvidia(test: ast.expr, true: bool) -> bool:
    """Whether `test` is true (or false) on NVIDIA's builds alone."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return told_nvidia(test.operand, not true)
    if isinstance(test, ast.BoolOp):
        some = any if isinstance(test.op, ast.And) is true else all
        return some(told_nvidia(part, true) for part in test.values)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and is_value(test.comparators[0], None):
        unlike = isinstance(test.ops[0], (ast.IsNot, ast.NotEq))
        return is_cuda_version(test.left) and unlike is true
    if isinstance(test, ast.Call) and not test.args:
        name = identifiers(test.func)[:1]
        if name and _NVIDIA_ASKED.fullmatch(name[0]):
            return true
    return true and any(map(is_cuda_version, ast.walk(test)))


def gets_cuda_version(call: ast.Call) -> bool:
    """`getattr(torch.version, "cuda", None)`."""
    if len(call.args) < 2 or not is_value(call.args[1], "cuda"):
        return False
    return "version" in identifiers(call.args[0])


def identifiers(node: ast.AST) -> list[str]:
    names = []
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            names.append(part.id)
        elif isinstance(part, ast.Attribute):
            names.append(part.attr)
    return names


def asks_rocm(node: ast.AST) -> bool:
    """Whether an expression names ROCm or HIP."""
    words = [part.value for part in ast.walk(node)
             if isinstance(part, ast.Constant) and isinstance(part.value, str)]  # fmt: skip
    short = [word for word in words if len(word) < 20]
    return any(ROCM.search(word) for word in (*identifiers(node), *short))


def knows_hip(tree: ast.AST) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr == "hip" for part in ast.walk(tree))


def caught(handler: ast.ExceptHandler) -> list[str]:
    """The names of what is caught; a bare except catches all."""
    return ["BaseException"] if handler.type is None else identifiers(handler.type)


def leaves(body: Sequence[ast.stmt]) -> bool:
    last = body[-1]
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return identifiers(last.value.func)[:1] in (["exit"], ["_exit"], ["skip"])
    return isinstance(last, (ast.Return, ast.Raise, ast.Continue, ast.Break))
