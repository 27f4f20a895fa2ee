"""The guard: which calls of compiled code are judged, when, and what is told of them."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from typing import Any

from reefwatch.core.errors import Breach
from reefwatch.core.fact import Evidence, Unknown
from reefwatch.gather.compiled.frames import Frames
from reefwatch.gather.compiled.rows import mismatch
from reefwatch.gather.compiled.uses import Use, Uses, never_compile
from reefwatch.gather.imports import PostImport
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.patches import get_ident, perf_counter, unseen

FIRST = 2
"""Calls of each kind (callable, shapes, dtypes, modes) that are judged in the exam."""
PART = 0.5
"""Of the budget after the exam, what judging calls may take."""
EXAM_PART = 0.8
"""Of the exam's allowance."""
MISMATCHES = 20
"""Of one callable that are told."""
KEPT = 4
"""Mismatches, and calls to be judged when the run is over, that are kept with their inputs."""
KEPT_BYTES = 1 << 30
DRAWS = "it draws random numbers, and compiled code draws others"
HISTORY = 2
"""Calls before a mismatch that are kept, for bugs that need an earlier call."""


class CompileGuard(Instrument):
    """Compares calls of compiled code with the original callable."""

    name = "compile"
    contract = "compile"

    def arm(self, tools: Tools) -> None:
        self._tools = tools
        self._torch = tools.torch
        options = self.options = tools.options
        self._aside = options.get("aside", nullcontext)
        self._mode = options.get("on_mismatch") or "report"
        self._later: list[Any] = options.setdefault("compiled_later", [])
        self._exam = EXAM_PART * float(options.get("exam", 20.0))
        self._share = PART * float(options.get("budget", 0.02))
        self._uses = Uses(tools.torch, self)
        self._frames = Frames(tools.torch)
        self._listening = False
        self._thread = get_ident()
        self.spent = 0.0
        self._steady_since = 0.0
        self._steady_spent = 0.0
        self._tallies: dict[int, Tally] = {}
        self._mismatches: list[dict[str, Any]] = []
        self._inconclusive = 0
        self._numbers = 0
        self._kept_bytes = 0
        self._pid = os.getpid()
        never_compile(tools.torch, CompileGuard.called.__code__)
        self._import = PostImport("torch._dynamo.eval_frame", self._ready)
        self._import.start()

    def _ready(self) -> None:
        if sys.modules["torch._dynamo.eval_frame"].__spec__ is not None:
            self._uses.start()

    def disarm(self) -> None:
        self.release()
        self._tell()

    def tell(self) -> None:
        self._tell()

    def release(self) -> None:
        self._import.stop()
        self._uses.stop()
        self._frames.stop()

    # -- one call -------------------------------------------------------------------------------

    def called(self, use: Use, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the program's call, and judge it if it is its turn."""
        use.calls += 1
        if not self._listening:  # dynamo's modules are whole by now
            self._listening = True
            self._frames.start()
        tally, key = self._turn(use, args, kwargs)
        if tally is None:
            return use.compiled(*args, **kwargs)
        if tally.eager:
            return use.function(*args, **kwargs)
        trial = self._begin(use, tally, args, kwargs)
        if trial is None:
            return use.compiled(*args, **kwargs)
        began = perf_counter()
        try:
            out = use.compiled(*args, **kwargs)
            use.seconds = max(use.seconds, perf_counter() - began)
        except Exception as error:
            self._end(use, tally, key, trial, None, error)
            raise
        instead = self._end(use, tally, key, trial, out, None)
        return out if instead is None else instead[0]

    def _turn(
        self, use: Use, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Tally | None, Any]:
        """(the tally of this use, the kind of this call); None when it is not judged."""
        torch = self._torch
        tally = self._tallies.get(use.number)
        if tally is None:
            tally = self._tallies[use.number] = Tally(use)
        if tally.eager:
            return tally, None
        if get_ident() != self._thread or os.getpid() != self._pid:
            tally.passed("it is called on another thread")
            return None, None
        key = _key(torch, tally.module, args, kwargs)
        times = tally.kinds.get(key, 0)
        tally.kinds[key] = times + 1
        if tally.reason or not self._may(tally, times):
            return None, None
        why = self._hindered()
        if why:
            tally.passed(why)
            return None, None
        return tally, key

    def _may(self, tally: Tally, times: int) -> bool:
        now = perf_counter()
        if times < FIRST:
            if self.spent < self._exam:
                return True
            tally.left += 1
            return False
        if not self._steady_since:
            self._steady_since = now
        allowed = self._share * (now - self._steady_since)
        return tally.every(times) and self._steady_spent + tally.cost < allowed

    def _hindered(self) -> str:
        """Why a call cannot be judged where it is made; empty when it can."""
        torch = self._torch
        core = torch._C
        if torch.compiler.is_compiling() or core._get_tracing_state() is not None:
            return "it is called while something is traced"
        if core._functorch.peek_interpreter_stack() is not None:
            return "it is called inside a transform of torch.func"
        for key in ("FAKE", "PROXY", "FUNCTIONAL"):
            if core._get_dispatch_mode(getattr(core._TorchDispatchModeKey, key)) is not None:
                return "it is called while something is traced"
        if torch._C._current_graph_task_id() != -1:
            return "it is called inside a backward pass"
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            return "it is called while a CUDA graph is captured"
        return ""

    def _begin(self, use: Use, tally: Tally, args: Any, kwargs: Any) -> Any:
        from reefwatch.gather.compiled.trial import Trial

        began = perf_counter()
        try:
            with self._aside():
                trial = Trial(use.function, args, kwargs, tally.whole)
                if trial.reason:
                    tally.unproven(trial.reason)
                    return None
                if self._ranks(tally):
                    return None
                return trial
        except Breach:
            raise
        except Exception as error:
            tally.unproven(f"the call could not be copied: {type(error).__name__}: {error}")
            return None
        finally:
            self._charge(tally, perf_counter() - began)

    def _ranks(self, tally: Tally) -> bool:
        dist = self._torch.distributed
        if not (dist.is_available() and dist.is_initialized()):
            return False
        module = tally.module
        if module is not None and any(
            type(part).__name__ in ("DistributedDataParallel", "FullyShardedDataParallel")
            or type(part).__name__.startswith("FSDP")
            for part in module.modules()
        ):
            tally.unproven("its module talks to other ranks")
            return True
        return False

    def _end(
        self, use: Use, tally: Tally, key: Any, trial: Any, out: Any, error: Exception | None
    ) -> tuple[Any] | None:
        """Judge the call that was made. Raises Breach. A value in place of the call's own."""
        began = perf_counter()
        breach: Breach | None = None
        instead = None
        try:
            with self._aside():
                breach, instead = self._judged(use, tally, key, trial, out, error)
        except Breach as raised:
            breach = raised
        except Exception as failed:
            tally.unproven(f"judging it failed: {type(failed).__name__}: {failed}")
            if os.environ.get("REEFWATCH_DEBUG"):
                raise
        finally:
            self._charge(tally, perf_counter() - began)
        if breach is not None:
            raise breach from None
        return instead

    def _judged(
        self, use: Use, tally: Tally, key: Any, trial: Any, out: Any, error: Exception | None
    ) -> tuple[Breach | None, tuple[Any] | None]:
        from reefwatch.gather.compiled.effects import Draws
        from reefwatch.gather.compiled.trial import Rules, judge

        if trial.changed_parameters():
            tally.whole = True  # from the next call on, parameters are copied too
            tally.partial("it changes parameters: compared from its second call on")
            tally.kinds[key] = min(tally.kinds[key], FIRST - 1)
            return None, None
        after = Draws()
        try:
            seen = trial.observe(out, error)
            again = None if use.graphs or use.foreign else use.again
            options = self.options
            rules = Rules(options.get("referee") or "float64", bool(options.get("strict_casts")))
            trial.function = use.original
            verdict = judge(
                trial,
                seen,
                again,
                rules,
                own_randomness=use.own_randomness,
                races=1 if tally.kinds[key] == 1 and self._torch.get_num_threads() > 1 else 0,
            )
        finally:
            after.restore()
        if use.foreign and trial.differentiates and not verdict.differences:
            tally.partial("its gradients: code of a backend of the program's own is not run again")
        return self._keep(use, tally, key, trial, verdict)

    # -- what is told ---------------------------------------------------------------------------

    def _keep(
        self, use: Use, tally: Tally, key: Any, trial: Any, verdict: Any
    ) -> tuple[Breach | None, tuple[Any] | None]:
        tally.judged(verdict)
        trial.function = use.function
        if not verdict.unproven:
            tally.kinds_judged.add(key)
        tally.differentiated |= trial.differentiates
        late = (verdict.drew and use.own_randomness) or use.graphs
        if not verdict.differences:
            if late:
                self._for_later(use, tally, trial, None)
            tally.remember(trial)
            for one in verdict.inconclusive:
                self._tell_inconclusive(use, tally, one)
            return None, None
        rows = [self.row(use, trial, verdict, one) for one in verdict.differences[:3]]
        self._mismatches += rows
        instead = self._instead(use, trial) if self._mode == "eager" else None
        self._for_later(use, tally, trial, rows)
        for row in rows:
            self._tools.sink.event("compile.mismatch", row, id=str(row["number"]))
        first = rows[0]["text"] if rows else ""
        if self._mode == "raise":
            return Breach(f"compiled code departs from the original: {first}"), None
        if self._mode == "eager":
            tally.eager = True
            tally.partial("from a mismatch on, the original is called in its place (asked for)")
            return None, instead
        return None, None

    def _instead(self, use: Use, trial: Any) -> tuple[Any]:
        """Make the call again with the original, on the program's own tensors as they were."""
        with self._torch.no_grad():
            for tensor, copy in trial.frozen.pairs():
                if not (tensor.is_leaf and tensor.requires_grad) and not self._torch.equal(
                    tensor, copy
                ):
                    tensor.copy_(copy)
        trial.draws.restore()
        return (use.function(*trial.world.args, **trial.world.kwargs),)

    def row(self, use: Use, trial: Any, verdict: Any, one: Any) -> dict[str, Any]:
        """A mismatch as it is written into the record."""
        self._numbers += 1
        return mismatch(self._numbers, use, use.calls, trial, verdict, one)

    def _tell_inconclusive(self, use: Use, tally: Tally, one: Any) -> None:
        self._inconclusive += 1
        if self._inconclusive <= MISMATCHES:
            row = {"callable": use.name, "file": use.file, "line": use.line, "path": one.path}
            row.update(text=one.text, wrong=one.wrong, elements=one.elements)
            self._tools.sink.event("compile.inconclusive", row, id=str(self._inconclusive))

    def _for_later(self, use: Use, tally: Tally, trial: Any, rows: Any) -> None:
        """Keep a call with all it was given, to be looked at when the run is over."""
        size = trial.frozen.bytes
        kept = sum(1 for later in self._later if (later.rows is None) == (rows is None))
        if kept >= KEPT or self._kept_bytes + size > KEPT_BYTES:
            return
        if any(later.use is use and later.rows is None and rows is None for later in self._later):
            return
        trial.keep_all()
        trial.let_go()
        self._kept_bytes += trial.frozen.bytes
        self._later.append(Later(self, use, trial, rows, list(tally.history)))

    def _charge(self, tally: Tally, seconds: float) -> None:
        self.spent += seconds
        tally.cost = max(seconds, 0.7 * tally.cost)
        if self._steady_since:
            self._steady_spent += seconds

    def settled(self, use: Use, verdict: Any) -> None:
        """A call of this use was judged after the run."""
        tally = self._tallies[use.number]
        tally.reasons.pop(DRAWS, None)
        tally.judged(verdict, twin=True)
        self._inconclusive += len(verdict.inconclusive)
        self._tell()

    def _tell(self) -> None:
        sink = self._tools.sink
        tallies = [
            self._tallies[use.number] for use in self._uses.all if use.number in self._tallies
        ]
        for tally in tallies:
            sink.event("compile.callable", tally.row(), id=str(tally.use.number))
        if not self._uses.all:
            loose = self._uses.earlier.functions
            why = "nothing was compiled"
            if loose:
                why += f" under watch; before it began, {', '.join(loose[:3])}"
                why += f" and {len(loose) - 3} more" if len(loose) > 3 else ""
            sink.fact("compile.used", Evidence("compile.used", False, source=why))
            sink.fact("compile.calls", Unknown("nothing was compiled"))
            return
        sink.fact("compile.used", Evidence("compile.used", True, source="torch.compile"))
        reasons: dict[str, int] = {}
        for tally in tallies:
            for reason, count in tally.reasons.items():
                reasons[reason] = reasons.get(reason, 0) + count
        value: dict[str, Any] = {
            "callables": len(self._uses.all),
            "called": len(tallies),
            "calls": sum(tally.use.calls for tally in tallies),
            "judged": sum(tally.count for tally in tallies),
            "graded": sum(tally.graded for tally in tallies),
            "kinds": sum(len(tally.kinds) for tally in tallies),
            "kinds_judged": sum(len(tally.kinds_judged) for tally in tallies),
            "left": sum(tally.left for tally in tallies),
            "inconclusive": self._inconclusive,
            "unproven": reasons,
            "seconds": self.spent,
            "bytes": max((tally.bytes for tally in tallies), default=0),
            "allowance": self._exam,
            "mode": self._mode,
        }
        sink.fact("compile.calls", Evidence("compile.calls", value, source="the original callable"))
        graded = any(tally.differentiated for tally in tallies)
        why = "" if graded else "no compiled call was made with gradients on"
        sink.fact("compile.differentiated", Evidence("compile.differentiated", graded, source=why))
        self._tell_frames(value["calls"])

    def _tell_frames(self, calls: int) -> None:
        frames, sink = self._frames, self._tools.sink
        frames.read()
        for number, row in enumerate(frames.rows.values()):
            sink.event("compile.frame", row, id=str(number))
        if frames.reason:
            sink.fact("compile.frames", Unknown(frames.reason))
            return
        kinds = [row["kind"] for row in frames.rows.values()]
        value = {
            "compiled": frames.compiled,
            "left": kinds.count("left"),
            "breaks": kinds.count("break"),
            "limits": kinds.count("limit"),
            "calls": calls,
        }
        sink.fact("compile.frames", Evidence("compile.frames", value, source="dynamo"))


class Later:
    """A call to be looked at once more when the run is over."""

    def __init__(
        self, guard: CompileGuard, use: Use, trial: Any, rows: Any, history: list[Any]
    ) -> None:
        self.use, self.trial, self.rows, self.history = use, trial, rows, history
        self.strict = bool(guard.options.get("strict_casts"))
        self.call = use.calls
        self._guard = guard

    def row(self, verdict: Any, one: Any, twin: bool) -> dict[str, Any]:
        """A mismatch that was found now, as the guard would have written it."""
        row = self._guard.row(self.use, self.trial, verdict, one)
        return {**row, "call": self.call, "twin": twin}

    def settled(self, verdict: Any) -> None:
        """It was judged on a twin: count it, and write the totals again."""
        self._guard.settled(self.use, verdict)


class Tally:
    """What was seen of one compiled callable."""

    def __init__(self, use: Use) -> None:
        self.use = use
        self.module = use.module
        self.kinds: dict[Any, int] = {}
        self.kinds_judged: set[Any] = set()
        self.count = self.graded = self.left = self.bytes = 0
        self.cost = 0.0
        self.whole = False
        self.eager = False
        self.differentiated = False
        self.reason = ""
        """Why no call of it is judged any more."""
        self.reasons: dict[str, int] = {}
        self.referees: dict[str, int] = {}
        self.history: list[Any] = []
        self._refused = 0

    def every(self, times: int) -> bool:
        """Later calls are looked at ever more rarely."""
        return times & (times - 1) == 0 or times % 1024 == 0

    def passed(self, why: str) -> None:
        self.reasons[why] = self.reasons.get(why, 0) + 1

    def partial(self, why: str) -> None:
        self.passed(why)

    def unproven(self, why: str) -> None:
        """A call could not be judged; after a few of them no further one is tried."""
        self.passed(why)
        self._refused += 1
        if self._refused >= 3:
            self.reason = why

    def judged(self, verdict: Any, twin: bool = False) -> None:
        if verdict.unproven:
            self.unproven(verdict.unproven)
            return
        self.count += not twin
        self.graded += verdict.graded
        self.bytes = max(self.bytes, verdict.bytes)
        self.referees[verdict.referee] = self.referees.get(verdict.referee, 0) + 1
        if verdict.partly:
            self.partial(verdict.partly)

    def remember(self, trial: Any) -> None:
        """Keep the last few calls: some bugs need an earlier one."""
        if trial.frozen.bytes < KEPT_BYTES // 16:
            trial.let_go()
            self.history = [*self.history, trial][-HISTORY:]

    def row(self) -> dict[str, Any]:
        settings = self.use.settings
        return {
            "callable": self.use.name,
            "file": self.use.file,
            "line": self.use.line,
            "backend": settings["backend"],
            "dynamic": settings["dynamic"],
            "fullgraph": settings["fullgraph"],
            "calls": self.use.calls,
            "judged": self.count,
            "graded": self.graded,
            "kinds": len(self.kinds),
            "left": self.left,
            "referees": dict(self.referees),
            "unproven": dict(self.reasons),
        }


def _key(torch: Any, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What kind of call it is: shapes, dtypes, who wants gradients, modes."""
    found: list[Any] = [torch.is_grad_enabled(), module is not None and module.training]
    tensor = torch.Tensor
    stack = [*args, *kwargs.values()] if kwargs else list(args)
    for value in stack:
        if isinstance(value, tensor):
            found.append((value.shape, value.dtype, value.requires_grad))
        elif isinstance(value, (bool, int, float, str, type(None))):
            found.append(value if not isinstance(value, float) else float)
        elif isinstance(value, (tuple, list)) and len(value) < 64:
            found.append(_key(torch, None, tuple(value), {}))
        elif isinstance(value, dict) and len(value) < 64:
            found.append(_key(torch, None, tuple(value.values()), {}))
        else:
            found.append(type(value))
    return tuple(found)


unseen(CompileGuard.called)
