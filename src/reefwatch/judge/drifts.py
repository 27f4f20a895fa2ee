"""What has changed between a lock and what is here, and what each change can do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Coverage, Finding
from reefwatch.core.record import Case
from reefwatch.data import table

RESULTS, PRECISION, SPEED, NOTHING = "results", "precision", "speed", "nothing"
Lock = Mapping[str, Any]
_SECTION = {
    "system": {
        "kernel": SPEED,
        "os": NOTHING,
        "container": NOTHING,
    },
    "gpu": {"slot": NOTHING, "vram": SPEED},
    "firmware": {"smc": SPEED, "vcn": NOTHING, "vce": NOTHING, "uvd": NOTHING, "dmcu": NOTHING},
}
"""By the last part of the key; others of these sections can change results."""
_DETERMINISM = re.compile(r"deterministic|benchmark|sdp|threads|mkldnn|enabled")
_SPEED_FILES = re.compile(r"rocfft_kernel_cache|roctracer|rocprofiler|roctx|kineto|libcupti")


@dataclass(frozen=True)
class Drift:
    """One thing that is not as it was."""

    section: str
    key: str
    before: Any
    after: Any
    grade: str

    def __str__(self) -> str:
        name = f"{self.section} {self.key}"
        if self.before is None:
            return f"{name}: {_short(self.after)} was added"
        if self.after is None:
            return f"{name}: {_short(self.before)} is gone"
        return f"{name}: {_short(self.before)} became {_short(self.after)}"


def between(there: Lock, here: Lock) -> Iterator[Drift]:
    """Each difference, in the order of the sections; what either does not know is left out."""
    dark = (*there.get("unknown", {}), *here.get("unknown", {}))
    for section in dict.fromkeys((*there, *here)):
        old, new = there.get(section) or {}, here.get(section) or {}
        if section == "unknown" or (section in dark and not (old and new)):
            continue
        for key in dict.fromkeys((*old, *new)):
            before, after = old.get(key), new.get(key)
            seen = before is not None and after is not None  # by both, whatever `unknown` says
            if before != after and (seen or f"{section}.{key}" not in dark):
                yield Drift(section, key, before, after, grade(section, key))


def grade(section: str, key: str) -> str:
    """What a change can do: to results, precision, speed, or nothing."""
    if section in _SECTION:
        return _SECTION[section].get(key.rpartition(".")[2], RESULTS)
    if section in ("packages", "tags"):
        return NOTHING if _is_harmless(key) else RESULTS
    if section in ("libraries", "databases"):
        return SPEED if _SPEED_FILES.search(key) else RESULTS
    if section == "flags":
        return RESULTS if _DETERMINISM.search(key) else PRECISION
    if section == "environment":
        return _variable(key)
    return RESULTS


@lru_cache(maxsize=1)
def _harmless() -> tuple[frozenset[str], tuple[str, ...]]:
    """(names, beginnings of names) of the distributions that no number of a run goes through."""
    kinds = table("distributions.toml")["harmless"].values()
    names = [name for names in kinds for name in names]
    whole = frozenset(name for name in names if not name.endswith("*"))
    return whole, tuple(name[:-1] for name in names if name.endswith("*"))


def _is_harmless(distribution: str) -> bool:
    whole, starts = _harmless()
    return distribution in whole or distribution.startswith(starts)


def _variable(name: str) -> str:
    """By the table of variables: the worst that it affects; one that is not there: results."""
    for row in table("compat/env_vars.toml")["var"]:
        stem, star, _ = row["name"].partition("*")
        if name == row["name"] or (star and name.startswith(stem)):
            affects = set(row["affects"])
            if affects & {"correctness", "determinism", "visibility"}:
                return RESULTS
            if "precision" in affects:
                return PRECISION
            if affects & {"performance", "memory", "stability"}:
                return SPEED
            return NOTHING
    return RESULTS


_SHOWN = 300
"""Characters of a value: a search path of a hundred folders is cut."""


def _short(value: Any) -> str:
    text = re.sub(r"sha256:([0-9a-f]{12})[0-9a-f]{52}", r"sha256:\1...", str(value))
    if not text:
        return "(empty)"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


_WHY = {
    RESULTS: "for any comparison of numbers: it can change results",
    PRECISION: "for training and comparisons: it can change the precision of products",
    SPEED: "for benchmarks: it can change speed",
    NOTHING: "",
}
_DO = {
    "system": "bring the system back, or lock anew after a run that was compared",
    "gpu": "run on the locked card, or lock anew for this one",
    "firmware": "install the locked firmware, or lock anew after a run that was compared",
    "packages": "install the locked version; `reefwatch plan` writes whole sets",
    "environment": "set it as locked, or lock anew",
    "flags": "see which variable or configuration changes torch's default",
}


def findings(case: Case, wanted: str) -> Iterator[Finding]:
    """The drifts of one grade."""
    said = (case.evidence("lock.there"), case.evidence("lock.here"))
    for drift in between(said[0].value, said[1].value):  # type: ignore[arg-type]
        if drift.grade == wanted:
            row = {
                "section": drift.section,
                "key": drift.key,
                "locked": drift.before,
                "here": drift.after,
            }
            yield Finding(
                str(drift),
                (Evidence("lock.drift", row, source=f"{said[0].source}; {said[1].source}"),),
                claimed=f"locked as {_short(drift.before)}" if drift.before is not None else "",
                why=_WHY[wanted],
                fix=_DO.get(drift.section, "install the locked build again, or lock anew"),
                names=(f"{drift.section}.{drift.key}",),
            )


def doubt(case: Case, wanted: str) -> str:
    """Why nothing is claimed of this grade: what one of the two could not read."""
    unknown = {
        **case.value("lock.there").get("unknown", {}),
        **case.value("lock.here").get("unknown", {}),
    }
    dark = [
        f"{name}: {reason}"
        for name, reason in unknown.items()
        if name not in _UNKNOWABLE and _grade_of(name) == wanted and _one_sided(case, name)
    ]
    more = f" (and {len(dark) - 1} more)" if len(dark) > 1 else ""
    return dark[0] + more if dark else ""


_UNKNOWABLE = ("rocm",)


def _grade_of(name: str) -> str:
    section, _, key = name.partition(".")
    if section == "flags" and not key:
        return PRECISION
    return grade(section, key)


def _one_sided(case: Case, name: str) -> bool:
    """A thing that neither could read is no part of the lock; one that only one could is."""
    there, here = (case.value(n).get("unknown", {}) for n in ("lock.there", "lock.here"))
    return (name in there) != (name in here)


def covers(case: Case) -> tuple[Coverage, ...]:
    there = case.value("lock.there")
    total = sum(len(part) for name, part in there.items() if name != "unknown")
    dark = len(there.get("unknown", {}))
    return (Coverage("locked things", total, total + dark),)
