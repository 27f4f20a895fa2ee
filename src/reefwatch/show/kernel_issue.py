"""A reproducer and the text of an issue for a kernel that a compiler gets wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_LARGEST = 64
"""Elements of an argument that are written out."""


def files(stem: str, said: Sequence[Any], history: Mapping[Any, str]) -> dict[str, str]:
    """Texts by file name. `said` are the verdicts (judge.kernels.Said) on one kernel."""
    broken = next(one for one in said if one.verdict.value == "broken")
    made = {f"{stem}-issue.md": issue(stem, broken, said, history)}
    text = repro(broken.row)
    if text:
        made[f"{stem}-repro.py"] = text
    return made


def issue(stem: str, broken: Any, said: Sequence[Any], history: Mapping[Any, str]) -> str:
    """The issue: what is wrong, where, on what evidence, how to see it."""
    row = broken.row
    told = history.get((broken.kernel, broken.target), "")
    lines = [
        f"# `{stem}`: wrong code for {broken.target} with Triton {broken.version}",
        "",
        "The kernel below, compiled for AMD, does not compute what its source says. It was run on "
        "a model of the instruction set, not on a card.",
        "",
        "## Where",
        "",
        "| target | Triton | verdict |",
        "| --- | --- | --- |",
        *(f"| {one.target} | {one.version} | {_word(one)} |" for one in said),
        "",
        *([f"{told[0].upper()}{told[1:]}.", ""] if told else []),
        "## Evidence",
        "",
        *(_witness(one) for one in broken.against),
        *([f"- Triton's own IR: {broken.ir}"] if broken.ir else []),
        "",
        "## Launch",
        "",
        f"grid {tuple(row.get('grid', ()))}, {_pairs(row.get('options', {}))}"
        + (f", {_pairs(row['constants'])}" if row.get("constants") else ""),
        "",
        *(f"- `{name}`: {dtype} {shape}" for name, dtype, shape in row.get("arguments", ())),
        "",
        "## Kernel",
        "",
        "```python",
        str(row.get("source", "")).rstrip(),
        "```",
        "",
    ]
    return "\n".join(lines)


def _word(one: Any) -> str:
    return {"broken": "wrong", "held": "right"}.get(one.verdict.value, "not known")


def _witness(told: Mapping[str, Any]) -> str:
    here, there = told["values"]
    return (
        f"- {told['kind']} ({told['name']}): {told['different']} of {told['of']} values differ; "
        f"`{told['argument']}[{told['index']}]` is {here!r}, it says {there!r}"
    )


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def repro(row: Mapping[str, Any]) -> str:
    """A script of its own that launches the kernel once; "" when the inputs were not kept."""
    source, inputs = row.get("source"), row.get("inputs")
    if not source or inputs is None:
        return ""
    lines = [
        "import torch",
        "import triton",
        "import triton.language as tl",
        "",
        "",
        str(source).rstrip(),
        "",
        "",
        f'device = "cuda" if torch.cuda.is_available() else "cpu"  # {row["version"]}',
    ]
    names = []
    for name, value in inputs:
        names.append(f"{name}={name}")
        lines.append(f"{name} = {value}")
    grid = tuple(row.get("grid", ()))
    options = [f"{k}={v!r}" for k, v in row.get("options", {}).items()]
    lines += [
        f"{row['name']}[{grid}](",
        *(f"    {one}," for one in [*names, *options]),
        ")",
        *(f"print({one[0]!r}, {one[0]})" for one in row.get("arguments", ())),
        "",
    ]
    return "\n".join(lines)
