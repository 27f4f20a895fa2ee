"""Every launch of a program: run on the virtual GPU, held against witnesses, written back."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from reefwatch import isa
from reefwatch.experiments.kernels import execution, witnesses
from reefwatch.experiments.kernels.driver import Compiled, Driver
from reefwatch.experiments.kernels.subject import Call, Subject
from reefwatch.gather.dtypes import short
from reefwatch.gather.kernels import arguments, interpreted, source


class NotRun(RuntimeError):
    """A launch could not be run on the virtual GPU, so what follows from it cannot be seen."""


@dataclass(frozen=True)
class Limits:
    """How much is looked at."""

    launches: int = 2
    """Of each specialisation, with all witnesses; later ones only run."""
    builds: int = 4
    """Specialisations of a kernel that are held against witnesses, and candidates that an autotuner
    tries: without a clock none of the dozens is the best."""
    workgroups: int = 4096
    """A larger grid is refused."""
    interpreted: int = 1024
    """Programs that Triton's interpreter is asked for at most."""


class Examiner:
    """Takes the launches of a process; `tell` gets a row for each."""

    def __init__(
        self,
        torch: Any,
        version: str,
        targets: Sequence[str],
        tell: Callable[[dict[str, Any]], None],
        limits: Limits,
        spool: Any = None,
        references: Mapping[str, str] | None = None,
    ) -> None:
        self.torch, self.version, self.tell, self.limits = torch, version, tell, limits
        self.driver = Driver(torch, targets, self.launched)
        self.spool = spool
        self.references = references or {}
        self.unit = ""
        self.names: Mapping[str, Any] = {}
        """Names of the program, among which references are looked for."""
        self.call: Call | None = None
        self._caught: list[tuple[Compiled, tuple[int, int, int], Sequence[Any]]] | None = None
        self._seen: Counter[str] = Counter()
        self._launches: Counter[str] = Counter()
        self._builds: dict[str, list[str]] = {}
        self._run: Any = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Triton compiles for the targets and launches come here."""
        from triton.runtime.autotuner import Autotuner
        from triton.runtime.driver import driver
        from triton.runtime.jit import JITFunction

        active, self._run = driver._active if hasattr(driver, "_active") else None, JITFunction.run
        original, examiner = self._run, self

        def run(jit: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            if warmup or examiner._caught is not None:
                return original(jit, *args, grid=grid, warmup=warmup, **kwargs)
            before, examiner.call = examiner.call, Call(jit, args, dict(kwargs), grid)
            try:
                return original(jit, *args, grid=grid, warmup=warmup, **kwargs)
            except NotRun:
                raise
            except Exception as error:
                examiner._not_compiled(error)
                raise
            finally:
                examiner.call = before

        prune, most = Autotuner.prune_configs, self.limits.builds

        def fewer(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            return list(prune(tuner, *args, **kwargs))[:most]

        driver.set_active(self.driver)
        JITFunction.run, Autotuner.prune_configs = run, fewer
        try:
            yield
        finally:
            JITFunction.run, Autotuner.prune_configs = original, prune
            if active is not None:
                driver.set_active(active)

    def built(self, target: str, **options: Any) -> Subject:
        """The launch under way compiled once more, for a target and with other options.

        Raises whatever the compiler raises.
        """
        call = self.call
        assert call is not None, "no launch is under way"
        caught: list[tuple[Compiled, tuple[int, int, int], Sequence[Any]]] = []
        self._caught = caught
        hooks, call.jit.pre_run_hooks = call.jit.pre_run_hooks, []
        try:
            with self.driver.on(target):
                kwargs = {**call.kwargs, **options}
                kernel = self._run(call.jit, *call.args, grid=call.grid, warmup=False, **kwargs)
        finally:
            self._caught = None
            call.jit.pre_run_hooks = hooks
        compiled, grid, given = caught[0]
        made = arguments.of(compiled.src.signature, compiled.constants, given)
        return Subject(compiled, grid, made, getattr(kernel, "asm", {}))

    def launched(
        self, compiled: Compiled, grid: tuple[int, int, int], given: Sequence[Any]
    ) -> None:
        """Triton launches: examine, then write the result back. Raises NotRun."""
        if self._caught is not None:
            self._caught.append((compiled, grid, given))
            return
        assert self.call is not None
        row = self._row(compiled, grid)
        self._launches[row["kernel"]] += 1
        row["launch"] = self._launches[row["kernel"]]
        try:
            made = arguments.of(compiled.src.signature, compiled.constants, given)
        except arguments.Unmodelled as error:
            self._without(row, compiled.target, str(error))
            return
        row["arguments"] = [
            [b.name, short(b.tensor.dtype), list(b.tensor.shape)] for b in made.buffers
        ]
        spec = row["specialisation"] = _specialisation(row, compiled)
        self._seen[spec] += 1
        builds = self._builds.setdefault(row["kernel"], [])
        if spec not in builds:
            builds.append(spec)
        row["examined"] = (
            self._seen[spec] <= self.limits.launches and spec in builds[: self.limits.builds]
        )
        before = made.keep()
        observers = tuple(isa.OBSERVERS) if row["examined"] else ()
        ran = execution.run(compiled, grid, made, observers, most=self.limits.workgroups)
        if row["examined"]:
            witnesses.examine(self, row, Subject(compiled, grid, made, {}), ran, before)
        else:
            row["subjects"] = {compiled.target: {"status": ran.status, "reason": ran.reason}}
        made.put(before)
        if ran.status == "ran":
            made.put(ran.contents)
            self.tell(row)
            return
        self._without(row, compiled.target, ran.reason, ran.status)

    def _without(self, row: dict[str, Any], target: str, why: str, status: str = "refused") -> None:
        """Let Triton's interpreter stand in for a launch that was not run. Raises NotRun."""
        call = self.call
        assert call is not None
        subject = row.setdefault("subjects", {}).setdefault(target, {})
        subject.setdefault("status", status)
        subject.setdefault("reason", why)
        grid = tuple(row["grid"])
        try:
            if grid[0] * grid[1] * grid[2] > self.limits.workgroups:
                raise interpreted.NoAnswer("the grid is too large")
            interpreted.run(call.jit, call.args, call.kwargs, grid)
            row["stood_in"] = "interpreter"
        except interpreted.NoAnswer:
            row["stood_in"] = ""
            raise NotRun(f"{row['name']}: {why}") from None
        finally:
            self.tell(row)

    def _not_compiled(self, error: Exception) -> None:
        call = self.call
        assert call is not None
        words = [part.strip() for part in str(error).splitlines() if part.strip()]
        self.tell(
            {
                **_names(call.jit, self),
                "grid": [],
                "launch": 0,
                "examined": True,
                "specialisation": "",
                "options": {},
                "arguments": [],
                "subjects": {
                    self.driver.target: {
                        "status": "failed",
                        "reason": f"{type(error).__name__}: {' '.join(words)}"[:400],
                    }
                },
            }
        )

    def _row(self, compiled: Compiled, grid: tuple[int, int, int]) -> dict[str, Any]:
        assert self.call is not None
        options = {
            name: getattr(compiled.metadata, name)
            for name in ("num_warps", "num_stages")
            if hasattr(compiled.metadata, name)
        }
        constants = {
            key: value
            for key, value in self.call.kwargs.items()
            if isinstance(value, (int, float, str, bool, type(None)))
            and key not in ("debug", "num_warps", "num_stages")
        }
        return {
            **_names(self.call.jit, self),
            "grid": list(grid),
            "options": options,
            "constants": {key: value for key, value in constants.items() if value is not None},
        }


def _names(jit: Any, examiner: Examiner) -> dict[str, Any]:
    named = source.named(jit, examiner.unit)
    return {**named, "unit": examiner.unit, "version": examiner.version}


def _specialisation(row: Mapping[str, Any], compiled: Compiled) -> str:
    """What makes a compiled kernel another one: the program itself."""
    told = hashlib.sha256(compiled.text.encode()).hexdigest()[:12]
    return f"{row['kernel']}:{told}"
