"""Flops and bytes by dtype, as the page shows them: work by module, operations, memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reefwatch.core.record import Case, Record
from reefwatch.show import tree, view, words
from reefwatch.show.limits import Limits


def flow(record: Record, limits: Limits, folder: str) -> dict[str, Any] | None:
    """Where flops and bytes went, or None when no operation was recorded."""
    rows = tree.ops(record)
    if not rows:
        return None
    root = tree.build(rows, limits.nodes)
    flops, size = float(root.flops.total()), float(root.bytes.total())
    heaviest, more = tree.heaviest(rows, limits.rows)
    return {
        "tree": _node(root, flops, size, limits.nodes),
        "flops": tree.parts(root.flops, flops, words.flops),
        "bytes": tree.parts(root.bytes, size, words.size),
        "dtypes": [d for d in tree.DTYPES if root.flops.get(d) or root.bytes.get(d)],
        "steps": words.finite(view.mapping(record, "precision.ops").get("steps")),
        "ops": [_op(event.data, flops, size, folder, limits) for event in heaviest],
        "more": more,
        "total": len(rows),
    }


def _node(node: tree.Node, flops: float, size: float, most: int) -> dict[str, Any]:
    own_flops, own_size = float(node.flops.total()), float(node.bytes.total())
    return {
        "name": node.name,
        "path": node.path,
        "flops": tree.parts(node.flops, flops, words.flops),
        "bytes": tree.parts(node.bytes, size, words.size),
        "flops_share": own_flops / flops if flops else 0.0,
        "bytes_share": own_size / size if size else 0.0,
        "flops_text": words.flops(own_flops),
        "bytes_text": words.size(own_size),
        "children": [_node(child, flops, size, most) for child in node.children.values()],
        "left_out": node.left_out,
    }


def _op(
    row: Mapping[str, Any], flops: float, size: float, folder: str, limits: Limits
) -> dict[str, Any]:
    def names(key: str) -> str:
        value = row.get(key)
        some = dict.fromkeys(map(str, value)) if isinstance(value, (list, tuple)) else ["?"]
        return words.line(" ".join(some), 80)

    def text(key: str, most: int = 160) -> str:
        return words.line("" if row.get(key) is None else row[key], min(most, limits.text))

    file = words.short_path(str(row.get("file") or ""), folder)
    line = words.finite(row.get("line"))
    mine = words.finite(row.get("flops")) or 0.0, words.finite(row.get("bytes")) or 0.0
    return {
        "op": text("op").removesuffix(".default"),
        "in": names("in"),
        "out": names("out"),
        "dtype": tree.first_dtype(row, "in"),
        "module": text("module"),
        "place": words.line(f"{file}:{line:.0f}" if file and line else file, min(160, limits.text)),
        "phase": text("phase", 20),
        "cause": text("cause", 60),
        "calls": words.amount(words.finite(row.get("calls")) or 0),
        "flops": words.share(mine[0] / flops) if flops and mine[0] else "",
        "bytes": words.share(mine[1] / size) if size and mine[1] else "",
    }


def memory(record: Record, limits: Limits) -> dict[str, Any] | None:
    """Bars of bytes by dtype: saved for backward, parameters, gradients, optimizer state."""
    state = view.mapping(record, "precision.state")
    named = {"saved for backward": view.mapping(record, "precision.saved")}
    named |= {words.line(name, 40): state[name] for name in state}
    bars = {name: tree.by_dtype(value) for name, value in list(named.items())[: limits.rows]}
    bars = {name: counts for name, counts in bars.items() if counts.total()}
    saved = _saved_by(record, limits)
    if not bars and not saved:
        return None
    whole = float(max([counts.total() for counts in bars.values()], default=1))
    return {
        "bars": [
            {
                "name": name,
                "total": words.size(float(counts.total())),
                "parts": tree.parts(counts, whole, words.size),
            }
            for name, counts in bars.items()
        ],
        "dtypes": [d for d in tree.DTYPES if any(counts.get(d) for counts in bars.values())],
        "saved_by": saved,
        "device": _device_memory(record, limits),
    }


def _saved_by(record: Record, limits: Limits) -> list[dict[str, Any]]:
    rows = [
        (words.finite(event.data.get("bytes")) or 0.0, event.data)
        for event in Case(record).rows("precision.saved_by")
    ]
    rows.sort(key=lambda row: -row[0])
    return [
        {
            "module": words.line(row.get("module") or tree.NO_MODULE, limits.text),
            "dtype": tree.dtype_name(row.get("dtype")),
            "bytes": words.size(count),
        }
        for count, row in rows[: min(12, limits.rows)]
        if count
    ]


def _device_memory(record: Record, limits: Limits) -> list[tuple[str, str]]:
    memory = view.mapping(record, "perf.memory")
    rows = []
    for key in ("allocated", "reserved", "peak"):
        count = words.finite(memory.get(key))
        if count is not None:
            rows.append((key, words.size(count)))
    if memory.get("owner"):
        rows.append(("peak reached in", words.line(memory["owner"], limits.text)))
    return rows
