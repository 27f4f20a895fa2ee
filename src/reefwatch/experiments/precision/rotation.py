"""The instrument that makes each step another variant, examines one of each, and times the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import median
from typing import Any

from reefwatch.core.fact import Evidence, Fact, Grade, Unknown
from reefwatch.core.ports import Sink
from reefwatch.experiments.precision import signatures
from reefwatch.experiments.precision.variants import ASKED, BEST, PLAIN, Asked, Best, Plain
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.ops import OpLayer
from reefwatch.gather.patches import perf_counter
from reefwatch.gather.precision.attention import Attention
from reefwatch.gather.precision.audit import PrecisionAudit
from reefwatch.gather.precision.costly import CostlyOps
from reefwatch.gather.precision.examine import Memory
from reefwatch.gather.precision.gates import Gates
from reefwatch.gather.precision.launched import Launches, profiler, roots
from reefwatch.gather.precision.peak import Peak
from reefwatch.gather.precision.policy import wide_ops
from reefwatch.gather.precision.replay import Replay
from reefwatch.gather.regions import follow

SETTLE = 3
"""Steps as asked before anything is looked at: caches, allocators, the search for kernels."""
AGAIN = 2
"""Steps of each variant that are not counted, before its first one that is."""
TIMING = 20.0
"""Seconds that timing ops alone may take, after all steps were run."""
WARM, EXAMINE, PROFILE, TIME = "warm", "examine", "profile", "time"


class Enough(SystemExit):
    """Ends the script when all that was asked for is measured."""


class Predicted:
    """A Sink of what was computed under a policy that is not this device's own."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def fact(self, name: str, fact: Fact) -> None:
        if isinstance(fact, Evidence) and name.startswith("precision."):
            fact = replace(fact, grade=Grade.PREDICTED)
        self._sink.fact(name, fact)

    def event(
        self, kind: str, data: Mapping[str, Any], *, step: int | None = None, id: str | None = None
    ) -> None:
        self._sink.event(kind, {**data, "grade": "predicted"}, step=step, id=id)

    def tensor(self, name: str, raw: bytes, dtype: str, shape: tuple[int, ...]) -> None:
        self._sink.tensor(name, raw, dtype, shape)


class Rotation(Instrument):
    """Fills the section Precision experiment of docs/record.md. Changes the run, on purpose."""

    name = "precision.experiment"
    contract = "precision"

    def __init__(
        self,
        rounds: int,
        without: tuple[str, ...] = (),
        claim: str = "",
        profile: bool = False,
        policy: str = "",
        alone: int = 0,
    ) -> None:
        self._rounds, self._without = rounds, without
        self._alone, self._costly = alone, CostlyOps()
        self._claim, self._profile, self._policy = claim, profile, policy

    def arm(self, tools: Tools) -> None:
        self._tools, self._torch = tools, tools.torch
        self._costly.arm(tools)
        self._libraries = (Attention(), Gates())
        for one in self._libraries:
            one.arm(tools)
        self._optimizers: list[Any] = []
        self._variants: dict[str, Asked] = {ASKED: Asked()}
        self._times: dict[str, list[float]] = {}
        self._peaks: dict[str, list[int]] = {}
        self._seen: dict[str, dict[str, Any]] = {}
        self._plan: Iterator[tuple[str, str]] = iter(())
        self._turn = (ASKED, WARM)
        self._steps = self._backwards = self._per_step = 0
        self._done = False
        self._layer: OpLayer | None = None
        self._audit: PrecisionAudit | None = None
        self._peak: Peak | None = None
        self._trace: Any = None
        self._launches = Launches()
        self._trail: list[Any] = []
        self._regions = follow(tools)
        self._began = perf_counter()
        self._refused: dict[str, str] = {}
        self._replay: Replay | None = None
        if self._policy:
            self._replay = Replay(self._torch)
            self._replay.put()
            self._tools = replace(tools, sink=Predicted(tools.sink))

    # -- moments -----------------------------------------------------------------------------

    def on_optimizer(self, optimizer: Any) -> None:
        self._optimizers.append(optimizer)

    def after_backward(self, loss: Any) -> None:
        self._backwards += 1
        self._variants[self._turn[0]].after_backward()

    def before_update(self, optimizer: Any, examined: bool) -> None:
        self._end_if_done()

    def before_backward(self, loss: Any) -> None:
        self._end_if_done()

    def after_update(self, optimizer: Any, examined: bool) -> None:
        if self._audit is not None:
            self._audit.after_update(optimizer, True)
        if not any(optimizer is known for known in self._optimizers):
            self._optimizers.append(optimizer)

    def on_step(self, step: int, seconds: float, examined: bool) -> None:
        self._wait()
        took = perf_counter() - self._began
        self._end_turn(took)
        self._steps += 1
        self._per_step, self._backwards = self._backwards, 0
        if self._steps == SETTLE:
            self._plan = self._planned()
        if self._steps >= SETTLE:
            turn = next(self._plan, None)
            if turn is None:
                self._done = True
                self._turn = (ASKED, WARM)
                self._end_if_done()
                return
            self._turn = turn
        self._begin_turn()

    def disarm(self) -> None:
        self._end_turn(0.0)
        if self._replay is not None:
            self._replay.remove()
        self._write()
        if self._variants_of is not None and not self._policy:
            for one in self._libraries:
                one.disarm()
        self._time_alone()

    def _end_if_done(self) -> None:
        if self._done:
            raise Enough(0)

    # -- turns -------------------------------------------------------------------------------

    def _planned(self) -> Iterator[tuple[str, str]]:
        """(variant, how) of each step from here on; the first tells what the others need."""
        yield ASKED, EXAMINE
        if (self._gpu() or self._profile) and not self._policy:
            yield ASKED, PROFILE
        self._make()
        for name in self._variants:
            if name != ASKED:
                yield from [(name, WARM)] * AGAIN
                yield name, EXAMINE
        yield from [(ASKED, WARM)] * AGAIN
        if self._policy:
            return  # how long a step takes here says nothing of the other device
        names = list(self._variants)
        for number in range(self._rounds):
            at = number % len(names)
            for name in names[at:] + names[:at]:
                yield name, TIME

    def _make(self) -> None:
        """The other variants, where this script has them."""
        audit = self._variants_of
        low = sorted({(d, t) for d, t in self._regions.seen if t in ("bf16", "f16")})
        if not low:
            why = "autocast was not used: there is nothing to switch off or to lift"
            self._refused = {PLAIN: why, BEST: why}
            return
        self._variants[PLAIN] = Plain(self._torch)
        device, dtype = low[0]
        if self._compiled():
            self._refused[BEST] = (
                "compiled code ran: it is guarded on the weights that it was made for"
            )
        elif self._per_step > 1:
            self._refused[BEST] = (
                f"{self._per_step} backward passes in a step share their gradients"
            )
        elif audit is None:
            self._refused[BEST] = "no module was seen"
        else:
            wide = (
                wide_ops(self._torch, device) if self._replay is None else self._replay.lists.wide
            )
            self._variants[BEST] = Best(
                self._torch, device, dtype, self._regions, audit.layer.modules, wide
            )
        for name in self._without:
            if self._variants.pop(name, None) is not None:
                self._refused[name] = self._tools.options.get("why", "left out")

    _variants_of: PrecisionAudit | None = None

    def _begin_turn(self) -> None:
        name, how = self._turn
        if how in (EXAMINE, PROFILE):
            self._look(name, how)
        if self._gpu():
            self._torch.cuda.reset_peak_memory_stats()
        self._wait()
        self._began = perf_counter()
        self._tools.sink.fact("precision.turn", Evidence("precision.turn", name))
        self._variants[name].put()

    def _end_turn(self, took: float) -> None:
        name, how = self._turn
        self._variants[name].remove()
        if how == PROFILE and self._trace is not None:
            trace, self._trace = self._trace, None
            self._wait()
            trace.__exit__(None, None, None)
            self._launches.add(self._trail, roots(trace), self._gpu())
            self._launches.write(self._tools.sink)
        elif how == EXAMINE and self._layer is not None:
            self._look_away(name)
        elif how == TIME and took:
            self._times.setdefault(name, []).append(took)
            if self._gpu():
                self._peaks.setdefault(name, []).append(self._torch.cuda.max_memory_allocated())

    def _look(self, name: str, how: str) -> None:
        if how == PROFILE:  # without the op layer, which slows small ops down
            self._trace = profiler(self._torch, self._gpu())
            self._trace.__enter__()
            return
        sink = self._tools.sink if name == ASKED else Memory()
        options = {**self._tools.options, "claim": self._claim, "replay": self._replay}
        tools = Tools(self._torch, sink, perf_counter, None, options)
        self._audit, self._peak = PrecisionAudit(), Peak()
        self._audit.arm(tools)
        self._peak.arm(tools)
        for optimizer in self._optimizers:
            self._audit.on_optimizer(optimizer)
        watching: list[Instrument] = [self._audit, self._peak]
        if name == ASKED and not self._policy:
            watching += [self._costly, *self._libraries]
        self._layer = OpLayer(tools, watching)
        self._audit.open(self._steps)
        self._audit.trail = []
        self._layer.enter(self._steps)

    def _look_away(self, name: str) -> None:
        layer, audit, peak = self._layer, self._audit, self._peak
        self._layer = self._audit = self._peak = None
        assert layer is not None and audit is not None and peak is not None
        layer.leave()
        audit.on_step(self._steps, 0.0, True)
        audit.state.measure()
        audit.close(self._steps)
        audit.layer = audit.layer or layer
        if name == ASKED:
            self._variants_of, self._trail = audit, audit.trail or []
            for one in self._libraries:
                one.close(self._steps)
        self._seen[name] = {
            "saved": dict(audit.saved),
            "state": audit.state.as_dict(),
            "peak": peak.as_dict(),
            "casts": sum(row.calls for row in audit.rows.values() if row.kind == "cast"),
        }
        peak.clear()

    def _gpu(self) -> bool:
        return bool(self._torch.cuda.is_initialized())

    def _wait(self) -> None:
        if self._gpu():
            self._torch.cuda.synchronize()

    def _compiled(self) -> bool:
        audit = self._variants_of
        return audit is not None and audit.compiled_calls > 0

    def _time_alone(self) -> None:
        """The costliest ops of the step as asked, each alone in three dtypes: last, so that no
        step is touched.
        """
        name, sink = "precision.signatures", self._tools.sink
        if self._policy or not self._alone:
            why = (
                "a prediction has no times" if self._policy else "not asked for: --signatures was 0"
            )
            sink.fact(name, Evidence(name, False, source=why))
            return
        signatures.measure(self._torch, self._costly.top(self._alone), sink, seconds=TIMING)

    # -- what is told ------------------------------------------------------------------------

    def _write(self) -> None:
        told: dict[str, Any] = {}
        value: dict[str, Any]
        for name, seen in self._seen.items():
            times = self._times.get(name, [])
            told[name] = {**seen, "steps": len(times), "seconds": times}
            if times:
                told[name].update(
                    median=median(times), low=_part(times, 0.25), high=_part(times, 0.75)
                )
            if self._peaks.get(name):
                told[name]["allocated"] = max(self._peaks[name])
        fact: Evidence | Unknown = Unknown(
            f"the script ended after {self._steps} steps, in its warm-up"
        )
        if told:
            value = {"variants": told, "refused": self._refused, "rounds": self._rounds}
            source = f"the {self._policy} policy replayed" if self._policy else "alternating steps"
            fact = Evidence("precision.variants", value, source=source)
        self._tools.sink.fact("precision.variants", fact)


def _part(values: list[float], share: float) -> float:
    """The value below which `share` of them lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
