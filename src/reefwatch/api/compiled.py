"""torch.compile under guard: in code, after a run, and for a file in CI."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from reefwatch.api.settings import Settings
from reefwatch.core.errors import UsageError
from reefwatch.core.fact import Fact
from reefwatch.core.record import Event, Record
from reefwatch.core.report import Report


class Memory:
    """A record that is kept in memory."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}
        self.events: list[Event] = []
        self.told: Callable[[Event], None] | None = None
        """Told of each event."""

    def fact(self, name: str, fact: Fact) -> None:
        self.facts[name] = fact

    def event(
        self, kind: str, data: Mapping[str, Any], *, step: int | None = None, id: str | None = None
    ) -> None:
        event = Event(kind, dict(data), step, id)
        self.events.append(event)
        if self.told is not None:
            self.told(event)

    def tensor(self, name: str, raw: bytes, dtype: str, shape: tuple[int, ...]) -> None:
        """Nothing here keeps tensors."""

    def record(self, **header: Any) -> Record:
        return Record(header, dict(self.facts), tuple(self.events))


_standing: list[tuple[Any, Memory]] = []
"""The guard of this process for `compile` outside of a watch."""


def compile(
    model: Any = None,
    *,
    on_mismatch: str = "report",
    strict_casts: bool = False,
    referee: str = "float64",
    exam: float = 60.0,
    budget: float = 0.02,
    **options: Any,
) -> Any:
    """`torch.compile(model, **options)`, held against the original while it is called.

    What comes back is what torch.compile gives. Inside a watch that watch judges it, as all that
    is compiled. Outside of one a mismatch is a RuntimeWarning (`report`), a Breach (`raise`), or
    the original is called from there on (`eager`); the first call decides on the settings for the
    process, and `compiled_report` tells all. Raises UsageError for unknown words.
    """
    if model is None:

        def decorate(function: Any) -> Any:
            return compile(
                function,
                on_mismatch=on_mismatch,
                strict_casts=strict_casts,
                referee=referee,
                exam=exam,
                budget=budget,
                **options,
            )

        return decorate
    import torch

    from reefwatch.api import session

    settings = Settings.of(
        exam=exam,
        budget=budget,
        on_mismatch=on_mismatch,
        strict_casts=strict_casts,
        referee=referee,
    )
    watched = session._on and session._on[0]._pid == os.getpid()
    if not watched and not _standing:
        _standing.append(_stand(torch, settings))
    return torch.compile(model, **options)


def _stand(torch: Any, settings: Settings) -> tuple[Any, Memory]:
    from time import perf_counter

    import_module("torch._dynamo")  # the guard stands before what this makes
    from reefwatch.gather.compiled.guard import CompileGuard
    from reefwatch.gather.instrument import Tools

    memory, guard = Memory(), CompileGuard()
    memory.told = _warn
    guard.arm(Tools(torch, memory, perf_counter, None, settings.plain()))
    return guard, memory


def _warn(event: Event) -> None:
    if event.kind == "compile.mismatch":
        text = f"compiled code departs from the original: {event.data['text']}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)


def compiled_report() -> Report:
    """The report on what `compile` made outside of a watch. Raises UsageError before its use."""
    if not _standing:
        raise UsageError("nothing was compiled with reefwatch.compile outside of a watch")
    guard, memory = _standing[0]
    guard.tell()
    return _judged("compile", memory.record())


def _judged(command: str, record: Record, settings: Settings | None = None) -> Report:
    from reefwatch.api import judging
    from reefwatch.judge import engine

    silenced = judging.silences(settings or Settings(), Path.cwd())
    return judging.judged(command, [record], None, silenced, selected=engine.load("compile"))


def check(
    target: str,
    *,
    edges: bool = True,
    strict_casts: bool = False,
    referee: str = "float64",
    locate: float = 120.0,
    backend: str = "inductor",
    out: str | os.PathLike[str] | None = None,
    config: str | os.PathLike[str] | None = None,
    baseline: str | os.PathLike[str] | None = None,
    say: Callable[[str], None] | None = None,
) -> Report:
    """Hold `FILE.py:factory` against what torch.compile makes of it.

    `factory()` gives (callable, inputs) or (callable, [inputs, ...]), where inputs is a tuple of
    arguments. `edges` adds odd inputs that are made from them. Raises UsageError.
    """
    settings = Settings.of(
        out=out,
        config=config,
        baseline=baseline,
        strict_casts=strict_casts,
        referee=referee,
        locate=locate,
    )
    function, examples, place = _made(target)
    from reefwatch.experiments.compiled import checking
    from reefwatch.gather.compiled.trial import Rules

    memory = Memory()
    checking.check(
        function,
        examples,
        place,
        memory,
        settings.out or Path.cwd() / "reefwatch-runs" / "compile-check",
        rules=Rules(referee, strict_casts),
        odd=edges,
        locate=locate,
        backend=backend,
        say=say or _silent,
    )
    return _judged("compile-check", memory.record(), settings)


def _silent(text: str) -> None:
    """Progress that nobody wants."""


def _made(target: str) -> tuple[Any, list[tuple[Any, ...]], tuple[str, int]]:
    """(callable, examples, where the factory is). Raises UsageError."""
    file, colon, name = target.rpartition(":")
    if not colon or not file or not name:
        raise UsageError(f"{target!r}: give a file and a function in it, as model.py:example")
    path = Path(file).resolve()
    if not path.is_file():
        raise UsageError(f"there is no file {file}")
    factory = _loaded(path, name)
    try:
        made = factory()
        function, examples = made
    except Exception as error:
        raise UsageError(f"{target} gave no (callable, inputs): {error!r}") from error
    if not callable(function):
        raise UsageError(f"{target} gave a {type(function).__name__} where a callable belongs")
    listed = examples if isinstance(examples, list) else [examples]
    for one in listed:
        if not isinstance(one, tuple):
            raise UsageError(f"{target}: inputs are a tuple of arguments, not {type(one).__name__}")
    code = getattr(factory, "__code__", None)
    return function, listed, (str(path), code.co_firstlineno if code else 1)


def _loaded(path: Path, name: str) -> Any:
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path.name} is no Python file")
    module = module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"{path.name} could not be run: {error!r}") from error
    found = getattr(module, name, None)
    if not callable(found):
        raise UsageError(f"{path.name} has no function {name!r}")
    return found
