"""From three runs to facts: which of the six kinds of state was not restored, and what followed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from reefwatch.core.fact import Evidence, Fact, Unknown
from reefwatch.experiments.numerics.resume import Line

SHOWN = 8
"""Names told one by one."""
SHARED = ("RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler")
"""Samplers that draw from the shared generator, unless they were given one of their own."""


def facts(stopped: Line, resumed: Line, whole: Line, begins: int) -> dict[str, Fact]:
    """What is known of each kind; Unknown with the reason where it is not."""
    told = Told(stopped, resumed, whole, begins)
    if told.why:
        unknown = Unknown(told.why)
        names = ("point", "weights", "optimizer", "scheduler", "scaler", "data", "random")
        return {f"resume.{name}": unknown for name in (*names, "continued")}
    return told.facts()


class Told:
    """The rows of three runs side by side."""

    def __init__(self, stopped: Line, resumed: Line, whole: Line, begins: int) -> None:
        self.stopped, self.resumed, self.whole, self.begins = stopped, resumed, whole, begins
        self.why = self._why()
        if self.why:
            return
        last, there = stopped.states[stopped.ends], whole.states[begins]
        # the process that wrote the checkpoint, where it still took a batch; else the whole run
        ended = begins == stopped.ends and not last["end"]
        self.before = last if ended else there
        self.first = resumed.states[0]
        self.had, self.has = self.before["full"], self.first["full"]
        self.offsets = [
            n for n in sorted(resumed.states) if begins + n in whole.states and self._goes_on(n)
        ]

    def _goes_on(self, offset: int) -> bool:
        rows = self.resumed.states[offset], self.whole.states[self.begins + offset]
        return not any(row["end"] for row in rows)

    def _why(self) -> str:
        first, there = self.resumed.states.get(0), self.whole.states.get(self.begins)
        if first is None or first["end"]:
            return (
                "the resumed run made no update: it may take the training for finished, "
                "give it more to do (--then) or a shorter first run (--first)"
            )
        if there is None or there["full"] is None or there["end"]:
            return f"the uninterrupted run ended before update {self.begins}"
        if there["weights"] != self.stopped.states[self.begins]["weights"]:
            return (
                "two runs from the start differ before the checkpoint: the script is not "
                "reproducible here (no seed, or ops that add in any order)"
            )
        return ""

    def facts(self) -> dict[str, Fact]:
        data, drawn = self._data(), self._parts("drawn")
        moved = 0 in (data["first"], drawn)
        weights = self._state("weights", self.had["buffers"] if moved else ())
        optimizer, scheduler = self._state("optimizer"), self._state("scheduler")
        self._rates(optimizer, scheduler)
        scaler = self._state("scaler")
        random = self._random()
        self._blame(data, random, drawn)
        followed = self._trajectory()
        point = {
            "update": self.begins,
            "compared": len(self.offsets),
            "stopped": self.stopped.ends,
            "saved_by": sorted({save["by"] for save in self.stopped.saves}),
        }
        made = {
            "point": point,
            "weights": weights,
            "optimizer": optimizer,
            "scheduler": scheduler,
            "scaler": scaler,
            "data": data,
            "random": random,
            "continued": followed,
        }
        named: dict[str, Fact] = {
            f"resume.{name}": Evidence(f"resume.{name}", value, source="three runs of the script")
            for name, value in made.items()
        }
        for name, value in (("scheduler", scheduler), ("scaler", scaler)):
            has = Evidence(f"resume.has_{name}", bool(value["of"]), source=f"there is no {name}")
            named[f"resume.has_{name}"] = has
        if not self.before["data"] or not self.first["data"]:
            why = "what the forward was given could not be seen (compiled code, or no module)"
            named["resume.data"] = Unknown(why)
        return named

    def _state(self, kind: str, left: Sequence[str] = ()) -> dict[str, Any]:
        """One kind at the first update after the resumption: values that differ or are absent.

        `left` out are buffers that the forward of this update has changed with other data.
        """
        had = {name: value for name, value in self.had[kind].items() if name not in set(left)}
        has = self.has[kind]
        differ = [name for name in had if name in has and not _equal(had[name], has[name])]
        absent = [name for name in had if name not in has]
        if kind == "weights":  # a module that only the first run keeps alive bears no weight
            roots = {name.partition(".")[0] for name in has}
            absent = [name for name in absent if name.partition(".")[0] in roots]
        return {
            "of": len(had),
            "differ": len(differ),
            "absent": len(absent),
            "names": [*differ[:SHOWN], *absent[:SHOWN]][:SHOWN],
            "values": [_pair(name, had, has) for name in [*differ, *absent][:SHOWN]],
        }

    def _rates(self, optimizer: dict[str, Any], scheduler: dict[str, Any]) -> None:
        """The learning rate is the scheduler's where that is another one, or where no optimizer
        state was lost and there is no scheduler that says otherwise.
        """
        had, has = self.before["rates"], self.first["rates"]
        odd = [name for name in had if name in has and had[name] != has[name]]
        if not odd:
            return
        lost = optimizer["differ"] or optimizer["absent"]
        kept = scheduler["of"] and not scheduler["differ"] and not scheduler["absent"]
        into = optimizer if not scheduler["differ"] and (lost or kept) else scheduler
        into["differ"] += len(odd)
        into["of"] += len(had) if not into["of"] else 0
        into["names"] = [*odd, *into["names"]][:SHOWN]
        into["values"] = [*(_pair(n, had, has) for n in odd), *into["values"]][:SHOWN]

    def _data(self) -> dict[str, Any]:
        seen = [(n, *self._pair_of(n, "data")) for n in self.offsets]
        odd = [n for n, there, here in seen if _other_data(there, here)]
        first = next((one for one in seen if one[0] in odd), None)
        return {
            "of": len(seen),
            "differ": len(odd),
            "first": odd[0] if odd else None,
            "shape": first[2][0][1] if first is not None and first[2] else [],
            "loaders": self.had["loaders"],
            "explained": False,
        }

    def _random(self) -> dict[str, Any]:
        """By generator: is its state the same, was it restored at any time, is it drawn from?"""
        had, has = self.before["random"], self.first["random"]
        saved = [save["random"] for save in self.stopped.saves if save["update"] == self.begins]
        told = {}
        for name in had:
            rows = [row["random"].get(name) for n, row in sorted(self.whole.states.items()) if n]
            kept = {save.get(name) for save in saved} - {None}
            told[name] = {
                "same": had[name] == has.get(name),
                "restored": any(one["random"].get(name) in kept for one in self.resumed.sets),
                "drawn": len(set(rows)) > 1,
            }
        return {"of": len(told), "generators": told, "wrong": [], "matters": False}

    def _blame(self, data: dict[str, Any], random: dict[str, Any], drawn: int | None) -> None:
        """Is it the random state that makes the difference, and does it explain the data's?"""
        wrong = [
            name
            for name, one in random["generators"].items()
            if one["drawn"] and not one["same"] and not one["restored"]
        ]
        random["matters"] = bool(wrong) and (data["first"] is not None or drawn is not None)
        random["wrong"] = wrong if random["matters"] else []
        random["drawn"] = drawn
        own = [one for one in data["loaders"] if one["own"] or one["sampler"] not in SHARED]
        sequential = all(one["sampler"] == "SequentialSampler" for one in data["loaders"])
        places = bool(own) and not sequential
        data["explained"] = bool(data["differ"] and random["wrong"] and not places)

    def _parts(self, part: str) -> int | None:
        """The first offset at which another part of the rows differs."""
        for n in self.offsets:
            there, here = self._pair_of(n, part)
            if there != here:
                return n
        return None

    def _trajectory(self) -> dict[str, Any]:
        rates = [n for n in self.offsets if self._pair_of(n, "rates")[0] != self._row(n)["rates"]]
        weights = self._parts("weights")
        had, has = self.had["gradient"], self.has["gradient"]
        odd = [name for name in had if name in has and not _equal(had[name], has[name])]
        return {
            "of": len(self.offsets),
            "weights": weights,
            "rates": rates[0] if rates else None,
            "gradients": len(odd) + len(set(had) ^ set(has)),
            "names": odd[:SHOWN],
        }

    def _row(self, offset: int) -> Mapping[str, Any]:
        return self.resumed.states[offset]

    def _pair_of(self, offset: int, part: str) -> tuple[Any, Any]:
        there = self.before if offset == 0 else self.whole.states[self.begins + offset]
        return there[part], self._row(offset)[part]


def _equal(one: Any, two: Any) -> bool:
    """Equal in every bit: values that are told by digest, or plain."""
    digests = isinstance(one, list) and len(one) == 2 and isinstance(one[0], str)
    if digests and isinstance(two, list) and two:
        return bool(one[0] == two[0])
    return bool(one == two) or _number(one) == _number(two) is not None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _pair(name: str, had: Mapping[str, Any], has: Mapping[str, Any]) -> dict[str, Any]:
    """A value before and after, in words: of a tensor its norm."""
    return {"name": name, "before": _words(had.get(name)), "after": _words(has.get(name))}


def _words(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str):
        return f"a tensor of norm {value[1]:.6g}"
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _other_data(there: Sequence[Any], here: Sequence[Any]) -> bool:
    """True when tensors of one dtype and shape differ, or no dtype and shape is common.

    What only one of both was given (a mask that is made in the first step and kept) does not count.
    """
    one, two = _by_kind(there), _by_kind(here)
    common = set(one) & set(two)
    if not common:
        return bool(one and two)
    return any(one[kind] != two[kind] for kind in common)


def _by_kind(given: Sequence[Any]) -> dict[tuple[Any, ...], Counter[str]]:
    told: dict[tuple[Any, ...], Counter[str]] = {}
    for dtype, shape, digest in given:
        told.setdefault((dtype, *shape), Counter())[digest] += 1
    return told
