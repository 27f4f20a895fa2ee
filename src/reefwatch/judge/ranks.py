"""What the records of several ranks say together: the facts `ranks.*` (docs/record.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from reefwatch.core.fact import Evidence, Fact, Unknown
from reefwatch.core.record import Record, latest

_NAMED = 8
"""Tensors that are named of those that differ."""
_SAME = 3
"""Steps with equal losses, and different losses among them, before data is called the same."""
_SOURCE = "the records of all ranks together"
_COMPARED = ("ranks.replicas", "ranks.buffers", "ranks.data", "ranks.counts")
Looks = Mapping[int, Mapping[str, Any]]


def together(records: Sequence[Record]) -> tuple[Record, ...]:
    """The records, with what comparing them tells, where they are of several ranks."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(str(record.header.get("group", "")), []).append(record)
    told: dict[int, Record] = {}
    for some in groups.values():
        facts = _facts(some)
        for record in some:
            told[id(record)] = replace(record, facts={**record.facts, **facts})
    return tuple(told[id(record)] for record in records)


def _facts(records: Sequence[Record]) -> Mapping[str, Fact]:
    if max(record.world for record in records) < 2:
        return {}
    watched = {r.rank: _value(r, "ranks.watched") for r in records}
    here = {rank: value for rank, value in watched.items() if isinstance(value, Mapping)}
    hangs = [e.data for r in records for e in latest(r.events) if e.kind == "ranks.hang"]
    facts: dict[str, Fact] = {}
    if not here and not hangs:
        why = next((_why(r) for r in records if "ranks.watched" in r.facts), "")
        none = _false("ranks.several", why or "no process group was seen")
        return {"ranks.several": none, "ranks.apart": _apart(records)}
    facts["ranks.several"] = Evidence("ranks.several", True, source=_SOURCE)
    facts["ranks.apart"] = _false("ranks.apart", "a process group of several ranks was seen")
    looks = {r.rank: _looks(r) for r in records if r.rank in here}
    facts.update(_partners(looks, here))
    facts["ranks.scalers"] = _scalers(records)
    facts["ranks.hangs"] = _hangs(records, hangs)
    return facts


def _value(record: Record, name: str) -> Any:
    fact = record.facts.get(name)
    return fact.value if isinstance(fact, Evidence) else None


def _why(record: Record) -> str:
    fact = record.facts["ranks.watched"]
    return fact.source if isinstance(fact, Evidence) else fact.reason


def _false(name: str, why: str) -> Fact:
    return Evidence(name, False, source=why)


def _looks(record: Record) -> Looks:
    rows = latest(event for event in record.events if event.kind == "ranks.look")
    return {int(row.data["step"]): row.data for row in rows}


def _compared(looks: Mapping[int, Looks], about: Mapping[str, Any]) -> Mapping[str, Fact]:
    names = _COMPARED
    if len(looks) < 2:
        return {n: Unknown("the looks of one rank only are here") for n in names}
    steps = sorted(set.intersection(*(set(some) for some in looks.values())))
    if not steps:
        why = "the ranks have no step in common that was looked at"
        return {n: Unknown(why) for n in names}
    common = {rank: {step: some[step] for step in steps} for rank, some in looks.items()}
    total = {"looks": len(steps), "steps": int(about.get("steps", len(steps)))}
    return {
        "ranks.replicas": _replicas(common, steps, about, total),
        "ranks.buffers": _buffers(common, steps, about, total),
        "ranks.data": _data(common, steps, about, total),
        "ranks.counts": _counts(common, steps, total),
    }


def _apart(records: Sequence[Record]) -> Fact:
    """Ranks of one launch that trained, without a process group of several."""
    steps = {r.rank: told for r in records if (told := _updates(r))}
    if len(steps) < 2:
        return _false("ranks.apart", "fewer than two ranks made updates")
    rows = [{"rank": rank, "steps": number} for rank, number in sorted(steps.items())]
    value: dict[str, Any] = {"world": max(r.world for r in records), "ranks": rows}
    return Evidence("ranks.apart", value, source=_SOURCE)


def _updates(record: Record) -> int:
    """Updates by an optimizer."""
    told = _value(record, "run.steps")
    by_optimizer = isinstance(told, Mapping) and told.get("kind") == "optimizer"
    return int(told["count"]) if by_optimizer and isinstance(told, Mapping) else 0


def _partners(looks: Mapping[int, Looks], about: Mapping[int, Any]) -> Mapping[str, Fact]:
    """Each rank held against those that the same kind of wrapper keeps alike with it."""
    cliques: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    keys = {
        rank: (str(told.get("wrapper", "")), tuple(told.get("group") or ()))
        for rank, told in about.items()
    }
    for rank, key in keys.items():
        if not key[0]:  # no wrapper was seen here, but that of others counts on this rank
            key = next((other for other in keys.values() if rank in other[1]), key)
        cliques.setdefault(key, []).append(rank)
    if len(cliques) < 2:
        return _compared(looks, next(iter(about.values()), {}))
    some = [ranks for ranks in cliques.values() if len(ranks) > 1]
    alone = sorted(ranks[0] for ranks in cliques.values() if len(ranks) == 1)
    if not some:
        why = "each rank trains in a group of its own: none has a partner to be held against"
        return {name: _false(name, why) for name in _COMPARED}
    each = [_compared({r: looks[r] for r in ranks}, about[ranks[0]]) for ranks in some]
    source = "; ".join(f"ranks {', '.join(map(str, sorted(ranks)))}" for ranks in some)
    if alone:
        source += f"; without a partner: {', '.join(map(str, alone))}"
    return {name: _joined(name, [facts[name] for facts in each], source) for name in _COMPARED}


def _joined(name: str, facts: Sequence[Fact], source: str) -> Fact:
    """One fact of those of several groups: what differs in any, else what is not known in any."""
    values: list[Any] = [
        f.value for f in facts if isinstance(f, Evidence) and isinstance(f.value, Mapping)
    ]
    loud = [value for value in values if value.get("differ") or value.get("same")]
    if not values or (not loud and any(isinstance(fact, Unknown) for fact in facts)):
        return next((fact for fact in facts if isinstance(fact, Unknown)), facts[0])
    value = {**(loud or values)[0], "looks": min(v["looks"] for v in values)}
    if "differ" in value:
        value["differ"] = sorted((r for v in loud for r in v["differ"]), key=lambda r: r["step"])
        value["differ"] = value["differ"][:_NAMED]
    if "count" in value:
        value["count"] = sum(v["count"] for v in values)
        value["tensors"] = sum(v["tensors"] for v in values)
    return Evidence(name, value, source=f"records of {source}")


def _differing(
    common: Mapping[int, Looks], steps: Sequence[int], names: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """By name the first step at which ranks differ: `{"step", "ranks", "sure"}`."""
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        for step in steps:
            sums = {
                rank: some[step]["tensors"][name]
                for rank, some in common.items()
                if name in some[step]["tensors"]
            }
            if len(set(sums.values())) < 2:
                continue
            value, times = Counter(sums.values()).most_common(1)[0]
            sure = times > len(sums) / 2
            ranks = [rank for rank, one in sums.items() if one != value] if sure else sorted(sums)
            found[name] = {"name": name, "step": step, "ranks": ranks, "sure": sure}
            break
    return found


def _replicas(
    common: Mapping[int, Looks], steps: Sequence[int], about: Mapping[str, Any], total: Any
) -> Fact:
    shared = Counter(n for some in common.values() for n in some[steps[0]]["tensors"])
    names = [n for n, times in shared.items() if times > 1 and not n.startswith("buffer ")]
    if not names:
        why = "all parameters are sharded: no rank holds what another one has"
        return _false("ranks.replicas", why)
    found = _differing(common, steps, names)
    if about.get("wrapper") != "DDP":
        never = [n for n, row in found.items() if row["step"] == steps[0]]
        if len(never) == len(names):
            why = "the weights differ from the first step on, and no wrapper makes replicas of them"
            return _false("ranks.replicas", why)
    rows = sorted(found.values(), key=lambda row: row["step"])
    value = {**total, "tensors": len(names), "count": len(rows), "differ": rows[:_NAMED]}
    return Evidence("ranks.replicas", value, source=_SOURCE)


def _buffers(
    common: Mapping[int, Looks], steps: Sequence[int], about: Mapping[str, Any], total: Any
) -> Fact:
    names = [n for n in next(iter(common.values()))[steps[0]]["tensors"] if n.startswith("buffer ")]
    if not names:
        return _false("ranks.buffers", "there are no buffers with values")
    if about.get("broadcast_buffers") is not False:
        why = "DDP sends rank 0's buffers to all at each forward: between steps they differ"
        return _false("ranks.buffers", why)
    rows = sorted(_differing(common, steps, names).values(), key=lambda row: row["step"])
    value = {**total, "tensors": len(names), "count": len(rows), "differ": rows[:_NAMED]}
    return Evidence("ranks.buffers", value, source=_SOURCE)


def _data(
    common: Mapping[int, Looks], steps: Sequence[int], about: Mapping[str, Any], total: Any
) -> Fact:
    if not about.get("wrapper"):
        return _false("ranks.data", "no DDP or FSDP was seen: ranks may be meant to share data")
    if any("@shard" in n and "," in n for n in next(iter(common.values()))[steps[0]]["tensors"]):
        return _false("ranks.data", "ranks of a tensor parallel group are meant to share data")
    each = [[some[step]["loss"] for some in common.values()] for step in steps]
    known = [row for row in each if None not in row]
    distinct = len({row[0] for row in known})
    if len(known) < _SAME or distinct < _SAME:
        return Unknown(f"{len(known)} steps with losses to compare, {_SAME} are needed")
    same = all(len(set(row)) == 1 for row in known)
    value = {**total, "compared": len(known), "same": same, "world": len(common)}
    return Evidence("ranks.data", value, source=_SOURCE)


def _counts(common: Mapping[int, Looks], steps: Sequence[int], total: Any) -> Fact:
    for step in steps:
        issued = {rank: int(some[step]["issued"]) for rank, some in common.items()}
        if -1 in issued.values():
            return Unknown("the backend does not number its collectives")
        if len(set(issued.values())) > 1:
            usual = Counter(issued.values()).most_common(1)[0][0]
            odd = [rank for rank, number in issued.items() if number != usual]
            differ: dict[str, Any] = {
                "step": step,
                "issued": [{"rank": r, "number": n} for r, n in sorted(issued.items())],
            }
            row: Any = {**differ, "ranks": odd if len(odd) < len(issued) / 2 else sorted(issued)}
            return Evidence("ranks.counts", {**total, "differ": [row]}, source=_SOURCE)
    return Evidence("ranks.counts", {**total, "differ": []}, source=_SOURCE)


def _scalers(records: Sequence[Record]) -> Fact:
    used = {
        record.rank: value
        for record in records
        if isinstance(value := _value(record, "loop.scaler"), Mapping) and value.get("used")
    }
    if not used:
        return _false("ranks.scalers", "no GradScaler was used")
    rows = [
        {"rank": rank, **{key: value[key] for key in ("steps", "skipped", "scale")}}
        for rank, value in sorted(used.items())
    ]
    return Evidence("ranks.scalers", {"ranks": rows}, source=_SOURCE)


def _failed(record: Record) -> bool:
    """True when the program ended with an error."""
    told = _value(record, "run.exit")
    return isinstance(told, Mapping) and bool(told.get("code") or told.get("exception"))


def _hangs(records: Sequence[Record], hangs: Sequence[Mapping[str, Any]]) -> Fact:
    watched = [v for r in records if isinstance(v := _value(r, "ranks.hang"), Mapping)]
    if not watched and not hangs:
        return Unknown("no process group was seen at work")
    allowed = max((float(v["allowed"]) for v in watched), default=0.0)
    unended = sorted(r.rank for r in records if not r.complete or _failed(r))
    rows = [dict(row) for row in hangs]
    value: dict[str, Any] = {"allowed": allowed, "hangs": rows, "unended": unended}
    return Evidence("ranks.hangs", value, source=_SOURCE)
