"""Where flops and bytes went: by module, by operation, by dtype. From `precision.op` events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from reefwatch.core.record import Case, Event, Record
from reefwatch.show import words

DTYPES = (
    "f64", "f32", "bf16", "f16", "f8e4m3", "f8e5m2",
    "i64", "i32", "i16", "i8", "u8", "bool", "c64", "c128", "other",
)  # fmt: skip
DEPTH = 16
"""Levels of a module path that become levels of the tree; the rest stays in one name."""
NO_MODULE = "(outside modules)"


@dataclass(frozen=True)
class Part:
    """One dtype's piece of a bar; `share` is of the whole that the bar stands for."""

    dtype: str
    value: float
    share: float
    text: str

    @property
    def percent(self) -> str:
        return f"{max(0.0, 100 * self.share):.2f}"


@dataclass
class Node:
    """A module with what it and its children did."""

    name: str
    path: str
    flops: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    children: dict[str, Node] = field(default_factory=dict)
    left_out: int = 0

    def size(self) -> int:
        return 1 + sum(child.size() for child in self.children.values())


def dtype_name(name: Any) -> str:
    """The dtype as docs/record.md writes it; what is not on that page is `other`."""
    return name if isinstance(name, str) and name in DTYPES else "other"


def by_dtype(value: Any) -> Counter[str]:
    """A `{dtype: bytes}` of a record, unusable entries left out."""
    counts: Counter[str] = Counter()
    if isinstance(value, Mapping):
        for name, amount in value.items():
            counts[dtype_name(name)] += max(0.0, words.finite(amount) or 0.0)  # type: ignore[assignment]
    return counts


def parts(counts: Mapping[str, float], whole: float, written: Any) -> list[Part]:
    """The pieces of a bar in the order of the dtypes; `written` makes text of a value."""
    return [
        Part(name, counts[name], counts[name] / whole if whole else 0.0, written(counts[name]))
        for name in DTYPES
        if counts.get(name)
    ]


def ops(record: Record) -> tuple[Event, ...]:
    """The `precision.op` rows, totals over the examined steps."""
    return Case(record).rows("precision.op")


def first_dtype(row: Mapping[str, Any], key: str) -> str:
    """The dtype of the first input or output of a row."""
    names = row.get(key)
    return dtype_name(names[0]) if isinstance(names, (list, tuple)) and names else "other"


def build(rows: Iterable[Event], most: int) -> Node:
    """The module tree; beyond `most` modules those with the smallest share are counted only."""
    root = Node("all modules", "")
    for event in rows:
        row = event.data
        flops = max(0.0, words.finite(row.get("flops")) or 0.0)
        size = max(0.0, words.finite(row.get("bytes")) or 0.0)
        computed, made = first_dtype(row, "in"), first_dtype(row, "out")
        for node in _path(root, str(row.get("module") or "")):
            node.flops[computed] += flops  # type: ignore[assignment]
            node.bytes[made] += size  # type: ignore[assignment]
    _prune(root, most)
    for name, child in list(root.children.items()):
        root.children[name] = _joined(child)
    return root


def _path(root: Node, module: str) -> list[Node]:
    """The nodes from the root to a module, made where they are missing."""
    found, node = [root], root
    for name in module.split(".", DEPTH - 1) if module else [NO_MODULE]:
        if name not in node.children:
            path = f"{node.path}.{name}" if node.path else name
            node.children[name] = Node(words.line(name, 120) or "·", words.line(path, 400))
        node = node.children[name]
        found.append(node)
    return found


def _prune(root: Node, most: int) -> None:
    flops, size = root.flops.total() or 1, root.bytes.total() or 1
    weights: list[float] = []
    todo = [root]
    while todo:
        node = todo.pop()
        weights.append(node.flops.total() / flops + node.bytes.total() / size)
        todo.extend(node.children.values())
    if len(weights) <= most:
        return
    floor = sorted(weights, reverse=True)[most - 1]
    room, todo = most - 1, [root]
    while todo:
        node = todo.pop(0)
        for name, child in list(node.children.items()):
            weight = child.flops.total() / flops + child.bytes.total() / size
            if weight < floor or room <= 0:
                node.left_out += node.children.pop(name).size()
            else:
                room -= 1
                todo.append(child)


def _joined(node: Node) -> Node:
    """A module whose only child did all its work is shown together with it: `model.layers`."""
    while len(node.children) == 1 and not node.left_out:
        (child,) = node.children.values()
        if child.flops != node.flops or child.bytes != node.bytes:
            break
        name = words.line(f"{node.name}.{child.name}", 200)
        node = Node(name, child.path, child.flops, child.bytes, child.children, child.left_out)
    node.children = {name: _joined(child) for name, child in node.children.items()}
    return node


def heaviest(rows: Iterable[Event], most: int) -> tuple[list[Event], int]:
    """(the rows with the largest share of flops and bytes, how many were left out)."""
    rows = list(rows)
    flops = sum(words.finite(row.data.get("flops")) or 0 for row in rows) or 1
    size = sum(words.finite(row.data.get("bytes")) or 0 for row in rows) or 1

    def weight(row: Event) -> float:
        mine = words.finite(row.data.get("flops")) or 0, words.finite(row.data.get("bytes")) or 0
        return -(mine[0] / flops + mine[1] / size)

    return sorted(rows, key=weight)[:most], max(0, len(rows) - most)
