"""The verbs, each a straight line: gather, judge, show."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from reefwatch.api.settings import Settings, precision
from reefwatch.core.errors import ReefwatchError, UsageError

if TYPE_CHECKING:
    from reefwatch.api.session import Session
    from reefwatch.core.report import ExitPolicy, Report

__all__ = ["explain", "report", "run", "watch", "watch_child"]


def run(
    argv: Sequence[str],
    *,
    module: bool = False,
    claim: str | None = None,
    exam: float = 20.0,
    budget: float = 0.02,
    strict: Iterable[str] | str = (),
    out: str | os.PathLike[str] | None = None,
    scrub: bool = True,
    config: str | os.PathLike[str] | None = None,
    baseline: str | os.PathLike[str] | None = None,
    locked: str | os.PathLike[str] | None = None,
    truth: bool = False,
    record: str | os.PathLike[str] | None = None,
    against: str | os.PathLike[str] | None = None,
    batch: str | os.PathLike[str] | None = None,
    perturb: int = 0,
    noise: int = 0,
    light: bool = False,
    most: int | None = None,
    kernels: bool = False,
    hang: float = 60.0,
    on_mismatch: str = "report",
    strict_casts: bool = False,
    referee: str = "float64",
    locate: float = 120.0,
    policy: ExitPolicy | None = None,
    exports: Mapping[str, str] | None = None,
    say: Callable[[str], None] | None = None,
    end_screen: Callable[[Report], None] | None = None,
    on_status: Callable[[Any], None] | None = None,
    on_death: Callable[[str], None] | None = None,
) -> int:
    """Run a program as `__main__` under watch; the exit code for this process.

    Meant for the command line: `__main__`, `sys.argv` and `sys.path` stay the program's. The code
    is `-SIGINT` when the process should die of Ctrl-C. `say` takes one-line messages, `end_screen`
    the report, `on_death` a line of triage when the script died; `exports` names further files by
    format; `locked` is a lock that the environment is held against. Raises UsageError before
    anything runs, UnreadableRecord for what is no lock.
    """
    from reefwatch.api import judging, references
    from reefwatch.api.session import Session
    from reefwatch.core.report import ExitPolicy, exit_code
    from reefwatch.gather import runner

    settings = Settings.of(
        claim,
        exam,
        budget,
        strict,
        out,
        config=config,
        baseline=baseline,
        scrub=scrub,
        truth=truth,
        record=record,
        against=against,
        batch=batch,
        light=light,
        noise=noise,
        most=most,
        kernels=kernels,
        hang=hang,
        on_mismatch=on_mismatch,
        strict_casts=strict_casts,
        referee=referee,
        locate=locate,
    )
    program = runner.prepare(argv, module)
    if program.kind == "script" and program.code is None:
        from reefwatch.api import triage

        triage.keep_unstarted(runner.complaint(program), program.name, settings)
        runner.leave_to_python(program)
    files = {kind: Path(os.path.abspath(path)) for kind, path in (exports or {}).items()}
    session = Session(settings, [program.target, *program.args], program.name, say, whole=True)
    if config is not None or baseline is not None:
        session.silences = judging.silences(settings, session.cwd)
    under = None
    if locked is not None:
        from reefwatch.api.lock import Locked

        under = Locked(locked)
        under.look()
    session.start(on_status)
    if under is not None:
        session.tell("lock", under.begun)
    ending = runner.run(program)
    code = ending.code
    try:
        if not ending.forked:
            with session.ways.own():
                if under is not None:
                    session.tell("lock", under.ended)
                session.stop({"code": ending.code, "exception": ending.exception})
                if ending.trace:
                    session.died(ending.exception or "", ending.trace, on_death)
                if session.launch.rank == 0 and ending.started:
                    report = session.judge("run")
                    session.write(report, files)
                    report = session.shown(report, end_screen)
                    code = exit_code(report, policy or ExitPolicy(), code)
                    if code != ending.code:
                        session.let_others_end(report)
                if perturb and record is not None and session.launch.rank == 0 and not ending.code:
                    with session.guarded("noise of the reference"):
                        references.measure_noise(settings, perturb, argv, module, session.say)
    except KeyboardInterrupt:
        session.gave_up("interrupted")
        return -signal.SIGINT
    except Exception as error:  # the run is over and keeps its exit code, whatever is the matter
        session.gave_up(f"{type(error).__name__}: {error}")
        code = ending.code
    return -signal.SIGINT if ending.interrupted else code


class watch:
    """Watch a block of code: `with reefwatch.watch(claim="bf16-mixed") as w: ...`.

    Afterwards `w.report` says what held, `w.folder` where the record lies. What the block raises
    passes through. Under `reefwatch run` the block is part of that watch: the claim counts for all
    of the program, `report` says what is known when the block ends, and what else is asked of it
    is a remark in the record. Raises ReefwatchError when another watch of the program is on,
    UsageError for unknown words.
    """

    def __init__(
        self,
        claim: str | None = None,
        exam: float = 20.0,
        budget: float = 0.02,
        strict: Iterable[str] | str = (),
        out: str | os.PathLike[str] | None = None,
        *,
        scrub: bool = True,
        config: str | os.PathLike[str] | None = None,
        baseline: str | os.PathLike[str] | None = None,
        truth: bool = False,
        record: str | os.PathLike[str] | None = None,
        against: str | os.PathLike[str] | None = None,
        batch: str | os.PathLike[str] | None = None,
        light: bool = False,
        on_mismatch: str = "report",
        strict_casts: bool = False,
        referee: str = "float64",
        locate: float = 120.0,
    ) -> None:
        self._settings = Settings.of(
            claim,
            exam,
            budget,
            strict,
            out,
            config=config,
            baseline=baseline,
            scrub=scrub,
            truth=truth,
            record=record,
            against=against,
            batch=batch,
            light=light,
            on_mismatch=on_mismatch,
            strict_casts=strict_casts,
            referee=referee,
            locate=locate,
        )
        self._session: Session | None = None
        self._report: Report | None = None

    def __enter__(self) -> watch:
        from reefwatch.api.session import Session, running

        if self._session is not None:
            raise ReefwatchError("this watch was used already: make a new one")
        whole = running()
        if whole is not None and whole.whole:
            whole.join(self._settings)
            self._session = whole
            return self
        argv = list(sys.argv) or [""]
        name = os.path.splitext(os.path.basename(argv[0]))[0] or "notebook"
        session = Session(self._settings, argv, name)
        session.start()
        self._session = session
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        from reefwatch.gather import runner

        session = self._session
        assert session is not None, "the watch was never entered"
        if session.whole:
            self._report = session.glance() or Report("watch", ())
            return
        name = None if error is None else runner.in_words(error)
        session.stop({"code": None, "exception": name})
        self._report = session.judge("watch")
        if session.launch.rank == 0:
            session.write(self._report, {})
            self._report = session.shown(self._report, None)

    @property
    def report(self) -> Report:
        """The report. Raises ReefwatchError while the block still runs."""
        if self._report is None:
            raise ReefwatchError("the report is made when the watched block ends")
        return self._report

    @property
    def folder(self) -> Path | None:
        """Where the record lies; None when it could be written nowhere."""
        return None if self._session is None else self._session.folder

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write the report as one HTML file. Raises OSError."""
        from reefwatch.api.session import write

        write("html", Path(path), self.report)

    def _repr_html_(self) -> str:
        from html import escape

        from reefwatch.api.session import render

        if self._report is None:
            return "<p>reefwatch: the watched block has not ended</p>"
        # a page of its own must not spill its styles into the notebook
        page = escape(render("html", self._report), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:40em;border:0"></iframe>'


def report(
    folders: Iterable[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    claim: str | None = None,
    config: str | os.PathLike[str] | None = None,
    baseline: str | os.PathLike[str] | None = None,
) -> Report:
    """Judge recorded runs again, the ranks of one run together.

    Raises UnreadableRecord for what is no record, UsageError for an unknown claim.
    """
    from reefwatch.api import judging

    settings = Settings.of(claim, config=config, baseline=baseline)
    paths = [folders] if isinstance(folders, (str, os.PathLike)) else list(folders)
    if not paths:
        raise UsageError("no run to report on: give its folder")
    records = judging.read([Path(path) for path in paths])
    silences = judging.silences(settings, Path.cwd())
    facts = {"folder": os.path.abspath(paths[0])}
    return judging.judged("report", records, precision(claim), silences, facts=facts)


def explain(code: str | None = None) -> str:
    """The page of a check, or one line for each. Raises UsageError that names near codes."""
    from reefwatch.judge import engine

    checks = {check.code: check for check in engine.load()}
    if code is None:
        return "\n".join(f"{check.code}  {check.title}" for check in checks.values())
    check = checks.get(code.upper())
    if check is not None:
        return f"{check.code} ({check.contract}, {check.severity.name.lower()})\n\n{check.page}"
    from difflib import get_close_matches

    near = get_close_matches(code.upper(), checks, n=3, cutoff=0.5)
    hint = f"near: {', '.join(near)}" if near else "`reefwatch explain` lists all"
    raise UsageError(f"there is no check {code!r}; {hint}")


def watch_child(plan: Mapping[str, Any], index: int) -> Callable[[dict[str, Any]], None]:
    """Open the watch of a spawned child (gather/children.py); what is returned closes it."""
    from reefwatch.api import judging
    from reefwatch.api.session import Session
    from reefwatch.core.launch import Launch

    settings = Settings.of(
        plan["claim"],
        plan["exam"],
        plan["budget"],
        plan["strict"],
        scrub=plan["scrub"],
        truth=plan.get("truth", False),
        hang=plan.get("hang", 60.0),
        on_mismatch=plan.get("on_mismatch", "report"),
        strict_casts=plan.get("strict_casts", False),
        referee=plan.get("referee", "float64"),
        locate=plan.get("locate", 120.0),
    )
    session = Session(settings, plan["argv"], plan["script"])
    if "RANK" not in os.environ:
        session.launch = Launch(index, max(plan.get("nprocs", 0), index + 1), index)
    session.run_id = plan["run_id"]
    session.folder = judging.free(Path(plan["folder"]), session.launch.rank)
    session.start()

    def close(exit: dict[str, Any]) -> None:
        trace = exit.pop("trace", "")
        session.stop(exit)
        if trace:
            session.died(exit["exception"], trace, None)

    return close
