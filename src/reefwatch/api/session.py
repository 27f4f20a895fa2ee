"""One watch from its start to its report. What fails inside is kept and told, never raised."""

from __future__ import annotations

import builtins
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from os import getpid  # kept: the program may mock os
from pathlib import Path
from typing import Any

from reefwatch.api import judging, references
from reefwatch.api.settings import Settings
from reefwatch.core.errors import ReefwatchError, UsageError
from reefwatch.core.fact import Evidence, Fact, Json
from reefwatch.core.launch import Launch
from reefwatch.core.record import Record
from reefwatch.core.report import Report

_write = os.write
RANKS_WAIT = 5.0
"""Seconds that rank 0 waits at the end for the records of the ranks beside it."""
_on: list[Session] = []
"""The watch that is on in this process."""
_DEEP = 1000
"""Calls that our own work at the end may nest, whatever the program has set."""


def running() -> Session | None:
    """The watch that is on in this process, not one inherited by a fork."""
    return _on[0] if _on and _on[0]._pid == getpid() else None


class _Ways:
    """How modules are found and what the builtins are, as they were before the program ran.

    Its folder may shadow the names of our late modules, and what it has mocked or cleared is its
    own: our work at its end must not depend on it.
    """

    def __init__(self) -> None:
        self._path, self._finders = list(sys.path), list(sys.meta_path)
        self._hooks = list(sys.path_hooks)
        self._builtins = dict(vars(builtins))

    @contextmanager
    def own(self) -> Iterator[None]:
        """Put them back for a while; the program's own return after it."""
        users = sys.path, sys.meta_path, sys.path_hooks, dict(vars(builtins))
        limit = sys.getrecursionlimit()
        vars(builtins).update(self._builtins)
        sys.path, sys.meta_path = list(self._path), list(self._finders)
        sys.path_hooks = list(self._hooks)
        sys.setrecursionlimit(max(limit, _DEEP))
        try:
            yield
        finally:
            sys.path, sys.meta_path, sys.path_hooks, theirs = users
            for name in set(self._builtins) - set(theirs):
                delattr(builtins, name)
            vars(builtins).update(theirs)
            if sys.getrecursionlimit() == max(limit, _DEEP):
                sys.setrecursionlimit(limit)


class Session:
    """The watch of this process: sink, instruments, and what went wrong with them."""

    def __init__(
        self,
        settings: Settings,
        argv: Sequence[str],
        script: str,
        say: Callable[[str], None] | None = None,
        launched: Launch | None = None,
        *,
        whole: bool = False,
    ) -> None:
        from reefwatch.core import launch

        self.whole = whole
        """True for the watch of a whole program, which a watch inside the program joins."""

        self.settings, self.argv, self.script = settings, list(argv), script
        self._environ: Mapping[str, str] = os.environ
        if launched is not None:
            self._environ = {**os.environ, **launch.names(launched)}
        self.launch = launch.read(self._environ)
        self.say = say if say is not None and self.launch.rank == 0 else _silent
        self.folder: Path | None = None
        """Where the record lies; None while it lies nowhere."""
        self.run_id = ""
        self.silences: Sequence[Any] | None = None
        self.failures: dict[str, str] = {}
        """What failed in Reefwatch itself: what it was doing, and the error."""
        self.cwd = _cwd()
        self.ways = _Ways()
        """What our own work at the end needs of the interpreter."""
        self._compiled: list[Any] = []
        """Calls of compiled code that are looked at when the run is over."""
        self._options: dict[str, Any] = {}
        self._asked: dict[str, Any] = {}
        """What a reference needs, checked before anything runs."""
        self._sink: Any = None
        self._watch: Any = None
        self._stopped = False
        self._pid = getpid()

    @contextmanager
    def guarded(self, what: str) -> Iterator[None]:
        """Keep a failure inside Reefwatch from the run: it is told, and counts as errored."""
        try:
            yield
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
            self.failures[what] = words
            self._tell(f"{_article(what)} failed: {words}")
            if self._sink is not None:
                told: Json = {"error": words, "where": _where(error), "step": -1}
                with suppress(Exception):
                    self._sink.fact(f"errored.{what}", Evidence(f"errored.{what}", told))

    def start(self, on_status: Callable[[Any], None] | None = None) -> None:
        """Open the record, start the watch. Raises ReefwatchError when one is on, UsageError."""
        if running() is not None:
            raise ReefwatchError("a watch is on already: they cannot be nested")
        self._asked = references.options(self.settings, self.launch.rank, self.launch.world)
        wrong: UsageError | None = None
        with self.guarded("record"):
            try:
                if self.folder is None:
                    self.folder = self._place()
                self._open()
            except UsageError as error:  # `out` is a file
                wrong = error
        if wrong is not None:
            raise wrong
        _on[:] = [self]
        if self._sink is None:
            return
        with self.guarded("watch"):
            self._watch = self._build(on_status)
            self._watch.start()

    def option(self, name: str, value: Any) -> None:
        """Hand a late wish to the instruments: what a trainer is found to be configured for."""
        self._options[name] = value

    def note(self, moment: str, *args: Any) -> None:
        """A moment that only a trainer knows of, such as `gradients_ready`."""
        if self._watch is not None and not self._stopped:
            getattr(self._watch, moment)(*args)

    def join(self, asked: Settings) -> None:
        """A watch inside the program: its claim is taken where none is, the rest is told."""
        if self._sink is None:
            return
        force = self.settings.claim or self._options.get("claim")
        claim = None if force else asked.claim
        if claim is not None:
            source = "reefwatch.watch in the program"
            self.option("claim", claim)
            self._sink.fact("claim.precision", Evidence("claim.precision", claim, source=source))
        late = list(asked.beside(self.settings))
        if asked.claim in (claim, force) and "claim" in late:
            late.remove("claim")
        if late:
            self._sink.remark(
                "reefwatch.watch in the program joined the watch of the command, where its "
                f"{', '.join(late)} cannot take effect: say it to `reefwatch run`"
            )

    def tell(self, what: str, facts: Callable[[], Mapping[str, Fact]]) -> None:
        """Record facts besides those of the instruments. What fails is told, never raised."""
        if self._sink is None:
            return
        with self.ways.own(), self.guarded(what):
            for name, fact in facts().items():
                self._sink.fact(name, fact)

    def _place(self) -> Path:
        """The folder for the record. Raises UsageError when `out` is a file."""
        from reefwatch.store import folder

        self.run_id = folder.run_id(self._environ)
        return folder.new(self.settings.out, self.script, self.launch.rank, self._environ)

    def _open(self) -> None:
        from reefwatch.store.writer import Writer

        self._sink = Writer(self.folder, self._header(), scrub=self.settings.scrub)
        path = self._sink.path  # elsewhere than asked for when the folder cannot be written
        self.folder = None if path is None else path.parent
        for remark in self._sink.record().remarks:
            self.say(remark)
        truth, ref = self.settings.truth, self.settings.against
        source = "--truth" if truth else "--truth was not given"
        asked = Evidence("numerics.asked", truth, source=source)
        self._sink.fact("numerics.asked", asked)
        source = "--against" if ref else "--against was not given"
        against = Evidence("numerics.follows", ref is not None, source=source)
        self._sink.fact("numerics.follows", against)
        if self.settings.claim is not None:
            claim = Evidence("claim.precision", self.settings.claim, source="--claim")
            self._sink.fact("claim.precision", claim)

    def _header(self) -> dict[str, Any]:
        from datetime import datetime, timezone

        import reefwatch

        return {
            "reefwatch": reefwatch.__version__,
            "run_id": self.run_id,
            "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "argv": self.argv,
            "cwd": str(self.cwd),
            "script": self.argv[0] if self.argv else "",
            "python": sys.version.split()[0],
            "rank": self.launch.rank,
            "world": self.launch.world,
            "local_rank": self.launch.local_rank,
            "pid": getpid(),
            "host": os.uname().nodename,
            "options": self.settings.plain(),
        }

    def _build(self, on_status: Callable[[Any], None] | None) -> Any:
        from reefwatch.gather import catalog
        from reefwatch.gather.watch import Watch
        from reefwatch.judge.strict import Referee

        # `spawned` is what children of torch.multiprocessing.spawn need to open their own watch
        options = self._options
        options.update({**self.settings.plain(), "spawned": self._for_children()})
        options["compiled_later"] = self._compiled
        options.update(self._asked)
        options["agreed"] = "dist" in self.settings.strict and self.launch.world > 1
        options["say_hang"] = self._tell
        return Watch(
            self._sink,
            catalog.instruments(options),
            exam=self.settings.exam,
            budget=self.settings.budget,
            strict=self.settings.strict,
            referee=Referee(self.settings.strict) if self.settings.strict else None,
            options=options,
            on_status=on_status if self.launch.rank == 0 else None,
        )

    def _for_children(self) -> dict[str, Any]:
        return {
            **self.settings.plain(),
            "argv": self.argv,
            "script": self.script,
            "folder": str(self.folder),
            "run_id": self.run_id,
        }

    def stop(self, exit: Mapping[str, Any]) -> None:
        """Stop the watch and close the record. Does nothing the second time."""
        if self._stopped:
            return
        self._stopped = True
        if _on and _on[0] is self:
            _on.clear()
        with self.ways.own():
            if self._watch is not None:
                with self.guarded("end of the watch"):
                    self._watch.stop(exit=dict(exit))
            interrupted = str(exit.get("exception")).startswith("KeyboardInterrupt")
            if self._compiled and self._sink is not None and not interrupted:
                from reefwatch.api import aftermath

                with self.guarded("look at mismatches"):
                    aftermath.after(
                        self._compiled, self._sink, self.folder, self.settings, self.say
                    )
            if self._sink is not None:
                with self.guarded("end of the record"):
                    self._sink.close()

    def died(self, exception: str, trace: str, tell: Callable[[str], None] | None) -> None:
        """Keep the script's traceback beside the record, and tell in a line what it is."""
        from reefwatch.api import triage

        with self.ways.own(), self.guarded("triage"):
            file = None if self.folder is None else self.folder / f"rank{self.launch.rank}.error"
            text = triage.death(exception, trace, os.environ)
            triage.after_death(text, file, tell if self.launch.rank == 0 else None)

    def judge(self, command: str) -> Report:
        """The report over this rank's record and those of other ranks that can be seen."""
        facts: dict[str, Any] = {}
        if self.folder is not None:
            facts = {"folder": str(self.folder), "html": str(self.folder / "report.html")}
        records: Sequence[Record] = ()
        report: Report | None = None
        with self.ways.own():
            with self.guarded("reading the record"):
                records = self._records()
            if self.silences is None:
                with self.guarded("reading the silences"):
                    self.silences = judging.silences(self.settings, self.cwd)
            with self.guarded("judge"):
                # the failures so far; later ones are added by `_final`
                report = judging.judged(
                    command, records, None, self.silences or (), self.failures, facts
                )
        if report is None:
            report = Report(command, (), records=tuple(records), facts=facts)
        return self._final(report)

    def glance(self) -> Report | None:
        """What this rank's record says by now, while the run goes on."""
        report: Report | None = None
        if self._watch is not None and self._sink is not None and not self._stopped:
            with self.ways.own(), self.guarded("a look at the record"):
                self._watch.tell()
                silences = self.silences or ()
                own = self._sink.record()
                report = judging.judged("watch", [own], None, silences, self.failures, {})
        return report

    def shown(self, report: Report, screen: Callable[[Report], None] | None) -> Report:
        """The report as it is in the end, after an end screen was shown."""
        if screen is not None:
            with self.ways.own(), self.guarded("end screen"):
                screen(self._final(report))
        return self._final(report)

    def _final(self, report: Report) -> Report:
        """The report with what failed in Reefwatch since it was made."""
        told = {o.reason for o in report.outcomes if o.code == "WATCH"}
        late = [
            judging.errored(name, words)
            for name, words in self.failures.items()
            if words not in told
        ]
        facts = dict(report.facts)
        if "writing report.html" in self.failures:
            facts.pop("html", None)
        return replace(report, outcomes=(*report.outcomes, *late), facts=facts)

    def write(self, report: Report, exports: Mapping[str, Path]) -> None:
        """Write report.html and report.json into the run's folder, and the exports by format."""
        files = [(kind, path) for kind, path in exports.items()]
        if self.folder is not None:
            files += [(kind, self.folder / f"report.{kind}") for kind in ("html", "json")]
        with self.ways.own():
            if self.folder is not None:
                with suppress(Exception):  # the program, or somebody else, may have removed it
                    self.folder.mkdir(parents=True, exist_ok=True)
            for kind, path in files:
                with self.guarded(f"writing {path.name}"):
                    write(kind, path, report)

    def _records(self) -> Sequence[Record]:
        """The record of this process, then those of other ranks and of children.

        Those still at work get a moment to end.
        """
        if self._sink is None:
            return ()
        own: Record = self._sink.record()
        if self.folder is None:
            return (own,)
        beside = self.launch.local_world
        until = time.monotonic() + RANKS_WAIT
        while True:
            try:
                read = judging.read([self.folder], own)
            except ReefwatchError as error:
                return (replace(own, remarks=(*own.remarks, str(error))),)
            if sum(one.complete for one in read) >= beside or time.monotonic() > until:
                return read
            time.sleep(0.2)

    def gave_up(self, why: str) -> None:
        """Say that no report was made, where it can still be said."""
        again = "" if self.folder is None else f"; reefwatch report {self.folder} makes one"
        self._tell(f"no report was made ({why}){again}")

    def _tell(self, text: str) -> None:
        try:
            self.say(text)
        except Exception:  # the program has taken our modules away
            if self.launch.rank == 0:
                with suppress(OSError):
                    _write(2, f"reefwatch: {text}\n".encode("utf-8", "backslashreplace"))

    def let_others_end(self, report: Report) -> None:
        """Wait a moment for the processes of the ranks beside this one.

        When the first ends with a verdict as exit code, its launcher kills those that still run:
        their scripts are over, but not the atexit handlers.
        """
        if self.launch.world == 1:
            return
        pids = {one.header.get("pid") for one in report.records} - {getpid()}
        until = time.monotonic() + RANKS_WAIT
        with self.guarded("wait for other ranks"):
            while any(map(_runs, pids)) and time.monotonic() < until:
                time.sleep(0.05)


def _cwd() -> Path:
    try:
        return Path.cwd()
    except OSError:  # it was deleted; a script elsewhere can still be run
        return Path("/")


def _runs(pid: object) -> bool:
    """True for a process of this machine that has not ended, nor waits to be collected."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def _article(what: str) -> str:
    return what if what.split()[0] in ("reading", "writing") else f"the {what}"


def _silent(text: str) -> None:
    """What other ranks and code that embeds us say."""


def render(kind: str, report: Report) -> str:
    """The report as `html`, `json`, `junit` or `sarif`."""
    from importlib import import_module

    module = import_module(f"reefwatch.show.{kind}")
    pages: dict[str, Any] = {"pages": judging.pages()} if kind in ("html", "sarif") else {}
    text: str = module.render(report, **pages)
    return text


def write(kind: str, path: Path, report: Report) -> None:
    """Write one file whole or not at all. Raises OSError."""
    from reefwatch.store import regular

    regular.written(path, render(kind, report))


def _where(error: BaseException) -> str:
    link = error.__traceback__
    while link is not None and link.tb_next is not None:
        link = link.tb_next
    if link is None:
        return ""
    return f"{os.path.basename(link.tb_frame.f_code.co_filename)}:{link.tb_lineno}"
