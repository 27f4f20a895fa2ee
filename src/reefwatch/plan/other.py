"""Sets for NVIDIA cards and for the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reefwatch.plan import libraries, nvidia
from reefwatch.plan.candidates import number
from reefwatch.plan.sets import Conflict, Pin, Plan, Row, Wishes, told_by

Table = Mapping[str, Any]
_CUDA = "https://pypi.org/simple"
"""The torch of PyPI is a CUDA build."""
_CUDA_13 = (7, 5)
"""The least compute capability of CUDA 13 (its release notes: Maxwell, Pascal, Volta are gone)."""
_CPU = "https://download.pytorch.org/whl/cpu"


def solve(wishes: Wishes, tables: Any) -> Plan | Conflict:
    """The newest torch that fits Python, the wish and the libraries."""
    torch = tables.torch
    if wishes.rocm or wishes.channel:
        return Conflict("rocm", f"ROCm is asked for, and the plan is for {_who(wishes)}")
    version, _, tag = wishes.torch.partition("+")
    if tag and not (wishes.vendor == "cpu" and tag == "cpu"):
        return Conflict("torch", f"+{tag} is no build for {_who(wishes)}")
    asked = number(version)
    newest = sorted(torch["torch"], key=lambda row: number(row["version"]), reverse=True)
    rows = [row for row in newest if number(row["version"])[: len(asked)] == asked]
    if not rows:
        have = [row["version"] for row in torch["torch"]]
        return Conflict(
            "torch", f"torch {version} is in no table: they hold {have[-1]} to {have[0]}"
        )
    sure = [row for row in rows if row["confidence"] != "unknown"] or rows
    fitting = [row for row in sure if _python(row, wishes.python)]
    if not fitting:
        pythons = ", ".join(sure[0]["python"])
        return Conflict(
            "python",
            f"Python {wishes.python} has no wheel of torch {sure[0]['version']}; "
            f"there are {pythons}",
        )
    first: Conflict | None = None
    for row in fitting:
        made = assemble(row, wishes, tables)
        if isinstance(made, Plan):
            return made
        first = first or made
    assert first is not None
    return first


def _capability(name: str, cards: Sequence[Table]) -> list[Row]:
    """The compute capability of a card that is named, and whether today's builds serve it."""
    card = nvidia.find(name, cards)
    if card is None:
        return []
    why = "the CUDA builds of torch name the capabilities that they are built for"
    if number(card["capability"]) < _CUDA_13:
        why = (
            "builds for CUDA 13, as those of PyPI now are, begin at 7.5: take one for CUDA 12.6, "
            "where there is one, with --torch-source https://download.pytorch.org/whl/cu126"
        )
    return [Row("capability", card["capability"], why, card["source"], told_by(card["source"]))]


def _who(wishes: Wishes) -> str:
    return "the CPU" if wishes.vendor == "cpu" else f"an NVIDIA card ({wishes.gpu or 'any'})"


def _python(row: Table, python: str) -> bool:
    return not python or python in row["python"] or row["python"] == ["unknown"]


def assemble(row: Table, wishes: Wishes, tables: Any) -> Plan | Conflict:
    """The set around one release of torch."""
    tag = "+cpu" if wishes.vendor == "cpu" else ""
    version, source = row["version"], "PyTorch's version table"
    pins = [Pin("torch", version + tag, True)]
    rows = [
        Row("card", _who(wishes), "", ""),
        Row("torch", version + tag, "the newest that fits", source, row["confidence"]),
        Row(
            "python",
            wishes.python or "any",
            f"wheels are for {', '.join(row['python'])}",
            source,
            row["confidence"],
        ),
    ]
    if wishes.vendor == "nvidia":
        rows += [
            *_capability(wishes.gpu, tables.gpus["nvidia"]),
            Row(
                "driver",
                "one that serves the CUDA of the wheel",
                "the tables do not say which",
                "",
                "unknown",
            ),
            Row(
                "triton",
                f"triton {row['triton']}",
                "torch pins it",
                "requires_dist on PyPI",
                row["confidence"],
            ),
        ]
    for name, number_ in (("torchvision", row["torchvision"]), ("torchaudio", row["torchaudio"])):
        if name in wishes.without:
            continue
        if number_ and "unknown" not in number_:
            pins.append(Pin(name, number_ + tag, True))
            rows.append(Row(name, number_ + tag, "of the same set", source, row["confidence"]))
        else:
            rows.append(Row(name, "left out", "none is paired with this torch", source))
    ground = libraries.Ground(wishes.vendor, "", version, "", wishes.python)
    remarks = []
    for name in wishes.libraries:
        fitted = libraries.fit(name, ground, tables.libs)
        if isinstance(fitted, Conflict):
            return fitted
        rows.append(fitted.row)
        pins += [fitted.pin] if fitted.pin else []
        remarks += [fitted.remark] if fitted.remark else []
    # said by name: pip may be set up with an index of CPU or ROCm wheels
    index = _CPU if wishes.vendor == "cpu" else _CUDA
    if wishes.source:
        index = "" if wishes.source == "pip" else wishes.source
    return Plan(wishes, tuple(rows), tuple(pins), index, remarks=tuple(remarks), asof=tables.asof)
