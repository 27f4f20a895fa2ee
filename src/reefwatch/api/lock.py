"""`reefwatch lock`: freeze what computes here, name each drift from it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reefwatch.core.fact import Evidence, Fact, Unknown
from reefwatch.core.record import Record

if TYPE_CHECKING:
    from reefwatch.core.report import Report
    from reefwatch.gather.machine.digests import Digests

CODES = ("MACH211", "MACH212", "MACH213", "MACH214")
Path_ = str | os.PathLike[str]


class Frozen:
    """What computes here: the sections, and how many files were read for it."""

    def __init__(self, sections: dict[str, Any], digests: Digests, sites: list[str]) -> None:
        self.sections, self.digests, self.sites = sections, digests, sites

    @property
    def files(self) -> dict[str, int]:
        """`{"read": files whose bytes were read, "known": files recognised by inode and time}`."""
        return {"read": self.digests.read, "known": self.digests.known}


def here(
    *, host: Any = None, sites: list[str] | None = None, paranoid: bool = False, flags: bool = True
) -> Frozen:
    """Freeze this machine and this environment. Digests are kept between calls.

    `sites` are the folders that hold the distributions (default: those of this interpreter). With
    `paranoid` every file is read again; without `flags` torch is not asked for its own.
    """
    from reefwatch.data import tables
    from reefwatch.gather.host import LiveHost
    from reefwatch.gather.machine import freeze, inventory
    from reefwatch.gather.machine.digests import Digests
    from reefwatch.store import digests as kept
    from reefwatch.store.scrub import Scrubber

    host = host or LiveHost()
    facts = inventory.take(host, tables.load())
    place = kept.place()
    digests = Digests(kept.load(place), paranoid)
    folders = _sites(facts) if sites is None else sites
    sections = freeze.freeze(host, facts, digests, folders, flags)
    scrub = Scrubber.here()  # a lock is committed and sent around
    sections["environment"] = {
        name: scrub.under(name, value) for name, value in sections["environment"].items()
    }
    if digests.read:
        kept.save(place, dict(digests.cache))
    return Frozen(sections, digests, folders)


def _sites(facts: Mapping[str, Fact]) -> list[str]:
    import sysconfig

    python = facts.get("machine.python")
    told: Any = python.value if isinstance(python, Evidence) else {}
    found = list(told.get("sites", ())) or [sysconfig.get_path("purelib")]
    return list(dict.fromkeys(found))


def lock(path: Path_ = "reefwatch.lock", frozen: Frozen | None = None) -> Frozen:
    """Write the lock of what is here. Raises UsageError when the file cannot be written."""
    from reefwatch import __version__
    from reefwatch.store import lock as store

    made = frozen or here()
    day = date.today().isoformat()
    store.write(Path(path), store.text(made.sections, day, f"reefwatch {__version__}"))
    return made


def check(
    path: Path_ = "reefwatch.lock",
    *,
    paranoid: bool = False,
    frozen: Frozen | None = None,
    config: Path_ | None = None,
    baseline: Path_ | None = None,
) -> Report:
    """Name each drift of what is here from a lock. Raises UnreadableRecord, UsageError."""
    from reefwatch.store import lock as store

    there = store.read(Path(path))
    made = frozen or here(paranoid=paranoid, flags="flags" not in there.get("unknown", {}))
    record = Record(
        {"command": "lock --check"},
        drift_facts(there, made.sections, os.fspath(path), "this machine"),
    )
    return _judged(record, {"lock": os.fspath(path), "files": made.files}, config, baseline)


def diff(
    before: Path_,
    after: Path_,
    *,
    config: Path_ | None = None,
    baseline: Path_ | None = None,
) -> Report:
    """Name each difference between two locks. Raises UnreadableRecord."""
    from reefwatch.store import lock as store

    a, b = store.read(Path(before)), store.read(Path(after))
    record = Record(
        {"command": "lock --diff"}, drift_facts(a, b, os.fspath(before), os.fspath(after))
    )
    return _judged(record, {"lock": os.fspath(before), "other": os.fspath(after)}, config, baseline)


def drift_facts(
    there: Mapping[str, Any], here_: Mapping[str, Any], first: str, second: str
) -> dict[str, Fact]:
    """`lock.there` and `lock.here`, for the checks."""
    return {
        "lock.there": Evidence("lock.there", dict(there), source=first),
        "lock.here": Evidence("lock.here", dict(here_), source=second),
    }


def _judged(
    record: Record, facts: Mapping[str, Any], config: Path_ | None, baseline: Path_ | None
) -> Report:
    from reefwatch.api import judging
    from reefwatch.api.settings import Settings
    from reefwatch.judge import engine

    settings = Settings.of(None, config=config, baseline=baseline)
    silences = judging.silences(settings, Path.cwd())
    checks = [one for one in engine.load("machine") if one.code in CODES]
    return judging.judged("lock", [record], None, silences, facts=facts, selected=checks)


class Locked:
    """A run under a lock: what was here when it began, and what became of its files."""

    def __init__(self, path: Path_) -> None:
        from reefwatch.store import lock as store

        self.path = os.fspath(path)
        self.there = store.read(Path(path))
        self.frozen: Frozen | None = None
        self._failed = "what is here was not looked at"

    def look(self) -> None:
        """Freeze what is here. What fails is told by the facts, never raised."""
        try:
            self.frozen = here(flags="flags" not in self.there.get("unknown", {}))
        except Exception as error:
            self._failed = f"what is here could not be frozen: {type(error).__name__}: {error}"

    def begun(self) -> dict[str, Fact]:
        """The facts of the start."""
        if self.frozen is None:
            there = Evidence("lock.there", dict(self.there), source=self.path)
            return {"lock.there": there, "lock.here": Unknown(self._failed)}
        return drift_facts(self.there, self.frozen.sections, self.path, "this machine")

    def ended(self) -> dict[str, Fact]:
        """The facts of the end: what of the locked libraries this process has mapped, and how."""
        from reefwatch.gather.machine import mapped

        if self.frozen is None:
            return {"lock.mapped": Unknown(self._failed)}
        try:
            with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
                maps = file.read()
        except OSError as error:
            return {"lock.mapped": Unknown(f"/proc/self/maps: {error.strerror or error}")}
        names = self.frozen.sections.get("libraries", {})
        paths = [os.path.join(site, name) for name in names for site in self.frozen.sites]
        told = mapped.replaced(maps, self.frozen.digests.cache, dict.fromkeys(paths))
        return {"lock.mapped": Evidence("lock.mapped", told, source="/proc/self/maps")}
