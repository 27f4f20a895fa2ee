"""`doctor`: look a machine over, judge what was found, say it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from reefwatch.api.settings import Settings
from reefwatch.core.errors import UsageError
from reefwatch.core.fact import Evidence, Fact, Unknown
from reefwatch.core.record import Event, Record
from reefwatch.core.report import Report

_NOT_DEEP = "asked for with --deep"


def doctor(
    *,
    root: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    deep: bool = False,
    limit: float = 60.0,
    config: str | os.PathLike[str] | None = None,
    baseline: str | os.PathLike[str] | None = None,
    say: Any = None,
) -> Report:
    """The report on this machine, or on the captured one at `root` (a folder or a tar file).

    `data` is a TOML file whose rows are laid over the shipped tables. With `deep` small programs
    run in child processes, each for at most `limit` seconds; `say` takes their progress.
    Raises UsageError for a root or a file that is not there.
    """
    from reefwatch.data import tables as data_tables
    from reefwatch.gather.machine import inventory

    if data is not None:
        _regular(Path(data), "--data")
    tables = data_tables.load(None if data is None else Path(data))
    with _host(root) as host:
        facts: dict[str, Fact] = inventory.take(host, tables)
    facts |= _deep(facts, limit, say) if deep and root is None else _no_deep(root)
    remarks = tuple(text for text in (tables.age(date.today()), _bare(root)) if text)
    record = Record({"command": "doctor", "root": _shown(root)}, facts, remarks=remarks)
    return _judged(record, config, baseline)


def port(
    folder: str | os.PathLike[str],
    *,
    config: str | os.PathLike[str] | None = None,
    baseline: str | os.PathLike[str] | None = None,
) -> Report:
    """The report on a CUDA code base that is about to move: each place, and what to do about it.

    Raises UsageError when there is no such folder.
    """
    from reefwatch.gather.machine.port import scan

    path = Path(folder)
    if not path.exists():
        raise UsageError(f"--port: there is no {folder}")
    found = scan.scan(path)
    events = tuple(Event("port.hit", hit, id=str(number)) for number, hit in enumerate(found.hits))
    about: dict[str, Any] = {
        "files": found.files,
        "skipped": len(found.unread),
        "unread": [list(row) for row in found.unread[:100]],
        "lines": found.lines,
        "guarded": found.guarded,
    }
    scanned: Fact = Evidence("port.scanned", about, source=str(folder))
    if not found.files and not found.hits:
        first = [f"{name}: {why}" for name, why in found.unread[:1]]
        scanned = Unknown(first[0] if first else f"there is no code to look at in {folder}")
    facts: dict[str, Fact] = {"port.scanned": scanned}
    header = {"command": "doctor --port", "cwd": os.path.abspath(path)}
    return _judged(Record(header, facts, events), config, baseline, port=True)


def uses(card: str | None, data: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """What a card of the table is good for; without a name, the cards of this machine.

    Raises UsageError when no card of the table is called so.
    """
    from reefwatch.data import tables as data_tables
    from reefwatch.gather.machine import arch
    from reefwatch.gather.machine import uses as table

    tables = data_tables.load(None if data is None else Path(data))
    if card is None:
        cards = _cards_here(tables)
    else:
        cards = table.card(tables, card)
        if not cards:
            names = [str(row["name"]) for row in tables.gpus.get("gpu", ())]
            from difflib import get_close_matches

            near = get_close_matches(f"AMD Radeon {card}", names, n=3, cutoff=0.5)
            hint = f"; near: {', '.join(near)}" if near else ""
            raise UsageError(f"no card of the table is called {card!r}{hint}")
    targets = sorted({one["gfx"] for one in cards})
    return {
        "asof": tables.asof,
        "cards": cards,
        "targets": {gfx: arch.about(tables, gfx) for gfx in targets},
        "uses": {gfx: table.of(tables, gfx) for gfx in targets},
    }


def capture(path: str | os.PathLike[str]) -> int:
    """Write what doctor reads of this machine, scrubbed, to a folder or a tar file; its files.

    Raises UsageError for a path that exists or cannot be written.
    """
    from reefwatch import __version__
    from reefwatch.data import tables as data_tables
    from reefwatch.gather.host import LiveHost
    from reefwatch.gather.machine import inventory
    from reefwatch.gather.machine.recording import RecordingHost
    from reefwatch.store import capture as stored
    from reefwatch.store.scrub import Scrubber

    host, tables = RecordingHost(LiveHost(), data_tables.load()), data_tables.load()
    inventory.take(host, tables)
    entries = host.entries(__version__)
    return stored.write(Path(path), entries, Scrubber.here())


def _host(root: str | os.PathLike[str] | None) -> Any:
    from contextlib import nullcontext

    from reefwatch.gather.host import LiveHost
    from reefwatch.gather.machine.replay import CapturedHost

    if root is None:
        return nullcontext(LiveHost())
    path = Path(root)
    if path.is_dir():
        return nullcontext(CapturedHost(_tree(path)))
    if not path.exists():
        raise UsageError(f"--root: there is no {root}")
    _regular(path, "--root")
    from reefwatch.store import capture as stored

    return stored.opened(path, CapturedHost)


def _regular(path: Path, option: str) -> None:
    """Refuse a pipe or a device, which may never end. Raises UsageError."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise UsageError(f"{option} {path}: neither a folder nor a file")


def _bare(root: str | os.PathLike[str] | None) -> str:
    """A remark when a folder is given that is no machine's."""
    if root is None or not Path(root).is_dir():
        return ""
    tree = _tree(Path(root))
    if any((tree / name).is_dir() for name in ("sys", "proc", "dev", "etc")):
        return ""
    return f"{os.fspath(root)} holds neither sys/ nor proc/: nothing of a machine is in it"


def _tree(path: Path) -> Path:
    """The folder that holds `sys/`: the one that is named, one around it, or the only one in it."""
    if path.name == "sys" and (path / "class").is_dir():
        return path.parent
    if not (path / "sys").is_dir():
        within = [one for one in sorted(path.iterdir()) if (one / "sys").is_dir()]
        return within[0] if len(within) == 1 else path
    return path


def _deep(facts: Mapping[str, Fact], limit: float, say: Any) -> dict[str, Fact]:
    from reefwatch.experiments import smoke

    told = smoke.run(limit, say)
    return {"machine.deep": Evidence("machine.deep", True, source="--deep"), **told}


def _no_deep(root: object) -> dict[str, Fact]:
    why = _NOT_DEEP if root is None else "a captured machine runs nothing"
    return {"machine.deep": Evidence("machine.deep", False, source=why)}


def _cards_here(tables: Any) -> list[dict[str, str]]:
    from reefwatch.gather.host import LiveHost
    from reefwatch.gather.machine import inventory

    found = inventory.take(LiveHost(), tables)["machine.gpus"]
    gpus: Any = [] if isinstance(found, Unknown) else found.value
    cards = []
    for gpu in gpus:
        name = gpu["name"]
        if isinstance(name, dict):
            name = name.get("likely") or " or ".join(name.get("candidates", ("AMD GPU",)))
        if isinstance(gpu["gfx"], str):
            cards.append({"name": str(name), "gfx": gpu["gfx"]})
    if not cards:
        raise UsageError("no AMD GPU is to be seen here; name one: --uses 'RX 7900 XTX'")
    return cards


def _judged(
    record: Record,
    config: str | os.PathLike[str] | None,
    baseline: str | os.PathLike[str] | None,
    port: bool = False,
) -> Report:
    from reefwatch.api import judging
    from reefwatch.judge import engine

    settings = Settings.of(None, config=config, baseline=baseline)
    places = ("reefwatch.toml", "pyproject.toml", "reefwatch-baseline.json")
    asked = bool(config or baseline) or any(os.path.exists(place) for place in places)
    silences = judging.silences(settings, Path.cwd()) if asked else ()
    checks = [c for c in engine.load("machine") if _about(c) == ("port" if port else "machine")]
    return judging.judged("doctor", [record], None, silences, selected=checks)


def _about(check: Any) -> str:
    """What a check of the machine looks at: `machine`, `port`, `codes` or `lock`."""
    prefixes = {name.partition(".")[0] for name in check.needs}
    return next((word for word in ("port", "codes", "lock") if word in prefixes), "machine")


def _shown(root: str | os.PathLike[str] | None) -> str:
    return "" if root is None else os.fspath(root)
