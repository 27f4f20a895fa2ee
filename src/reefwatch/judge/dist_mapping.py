"""Which rank has which card, and what is wrong with that: rows of `dist.ranks` in, words out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
_HIP = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
_TWICE = "the second counts what the first leaves"


def problems(ranks: Sequence[Row]) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """(what is wrong, ranks, what to do) of the mapping of ranks to cards."""
    for row in ranks:
        yield from _masks_of(row)
        yield from _index_of(row)
    for host in sorted({str(row.get("host", "")) for row in ranks}):
        here = [row for row in ranks if row.get("host", "") == host]
        yield from _shared(here)
        yield from _differing(here)


def _masks_of(row: Row) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """ROCR hides first, HIP counts what is left: two masks together mean another card."""
    masks = row.get("masks", {})
    rocr = masks.get("ROCR_VISIBLE_DEVICES")
    for name in _HIP:
        hip = masks.get(name)
        if rocr is not None and hip is not None and rocr != hip:
            words = f"ROCR_VISIBLE_DEVICES={rocr} and {name}={hip}: {_TWICE}"
            yield words, (row["rank"],), "set one of the two"
        elif (
            rocr
            and hip
            and rocr == hip
            and _list(rocr) not in ([], [0], list(range(len(_list(rocr)))))
        ):
            words = f"ROCR_VISIBLE_DEVICES and {name} are both {rocr}: {_TWICE}"
            yield words, (row["rank"],), "set one of the two"
    both = [masks[name] for name in _HIP if name in masks]
    if len(both) == 2 and both[0] != both[1]:
        yield (
            f"HIP_VISIBLE_DEVICES={both[0]} and CUDA_VISIBLE_DEVICES={both[1]} differ",
            (row["rank"],),
            "set one of the two",
        )


def _list(mask: str) -> list[int]:
    parts = [part.strip() for part in mask.split(",") if part.strip()]
    return [int(part) for part in parts] if all(part.isdigit() for part in parts) else [-1]


def _index_of(row: Row) -> Iterator[tuple[str, tuple[int, ...], str]]:
    card, count = row.get("card"), row.get("devices", 0)
    local = row.get("local_rank", 0)
    if not card:
        return
    if count > 1 and local >= count:
        words = f"LOCAL_RANK {local} with {count} cards to be seen"
        yield words, (row["rank"],), "start as many ranks on the host as it has cards"
    if card.get("current") != card.get("index"):
        words = f"the current device is {card.get('current')}, the rank's is {card.get('index')}"
        yield (
            words,
            (row["rank"],),
            "call torch.cuda.set_device(LOCAL_RANK) before the first collective",
        )


def _shared(here: Sequence[Row]) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """Two ranks on one physical card, by uuid or address; never by index."""
    by: dict[str, list[int]] = {}
    for row in here:
        card = row.get("card") or {}
        key = str(card.get("uuid") or card.get("slot") or "")
        if key:
            by.setdefault(key, []).append(row["rank"])
    for key, ranks in by.items():
        if len(ranks) > 1:
            yield (
                f"ranks {', '.join(map(str, ranks))} share one card ({key})",
                tuple(ranks),
                "give each rank a card of its own",
            )


def _differing(here: Sequence[Row]) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """Masks on one host: all alike, or one card each."""
    for name in ("ROCR_VISIBLE_DEVICES", *_HIP):
        masks = {row["rank"]: row.get("masks", {}).get(name) for row in here}
        values = list(masks.values())
        if len(set(values)) < 2:
            continue
        single = all(v is not None and len(_list(v)) == 1 for v in values)
        if single and len(set(values)) == len(values):
            continue
        told = ", ".join(
            f"rank {r}: {'not set' if v is None else repr(v)}" for r, v in sorted(masks.items())
        )
        yield (
            f"{name} differs among the ranks of one host ({told})",
            tuple(sorted(masks)),
            "set it alike for all, or one card for each",
        )


def unlike(ranks: Sequence[Row]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """(what differs, ranks of the smaller part) in versions and hardware."""
    for what, read in _ALIKE:
        values: dict[str, list[int]] = {}
        for row in ranks:
            value = read(row)
            if value:
                values.setdefault(str(value), []).append(row["rank"])
        if len(values) > 1:
            told = "; ".join(f"{value} on {_ranks(some)}" for value, some in values.items())
            yield f"{what} differs: {told}", tuple(sorted(values.values(), key=len)[0])


def _card(name: str) -> Any:
    return lambda row: (row.get("card") or {}).get(name)


_ALIKE: tuple[tuple[str, Any], ...] = (
    ("torch", lambda row: row.get("torch")),
    ("the backend's library", lambda row: row.get("library")),
    ("Python", lambda row: row.get("python")),
    ("the architecture", _card("arch")),
    ("the card", _card("name")),
    ("memory in bytes", _card("memory")),
    ("the number of compute units", _card("units")),
    (
        "settings of the transport",
        lambda row: ", ".join(f"{k}={v}" for k, v in row.get("transport", {}).items()) or "none",
    ),
)


def _ranks(ranks: Sequence[int]) -> str:
    some = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
    return ("rank " if len(ranks) == 1 else "ranks ") + some
