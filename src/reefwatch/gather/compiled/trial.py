"""One call of compiled code, judged by the original callable on copies of what it was given."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from reefwatch.gather.compiled import compare
from reefwatch.gather.compiled.copies import Copies, Uncopied
from reefwatch.gather.compiled.effects import Draws, Outside, Setting, ambient, held_back
from reefwatch.gather.compiled.modes import Noise, Recorder, Wide
from reefwatch.gather.compiled.outcome import (
    Outcome,
    keep_changes,
    keep_gradients,
    keep_output,
    storages,
)
from reefwatch.gather.compiled.world import World, copier

RANDOM, SUM = "random cotangent", "cotangent of a sum"
DRAWS = "it draws random numbers, and compiled code draws others"
OPINIONS = 6
"""Noisy runs of the original, before something is told."""
_COMPILING = ("BackendCompilerFailed", "InductorError", "FailOnRecompileLimitHit")
BEYOND = 8.0
"""Times the largest move under noise, within which a difference says nothing."""


@dataclass
class Verdict:
    """What came of one trial."""

    differences: list[compare.Difference] = field(default_factory=list)
    inconclusive: list[compare.Difference] = field(default_factory=list)
    unproven: str = ""
    """Why nothing was compared."""
    partly: str = ""
    """Why not all of it was."""
    referee: str = "not needed"
    """`float64`, `original (why)`, `not needed`: all was near enough to the original."""
    graded: bool = False
    drew: bool = False
    seconds: float = 0.0
    bytes: int = 0


class Trial:
    """A call as it was before it was made. Made before the call, told what came of it after."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        whole: bool = False,
    ) -> None:
        self.function = function
        self.world = World(function, args, kwargs)
        self.frozen = Copies()
        self.reason = "; ".join(dict.fromkeys(self.world.outside))
        """Why the call cannot be made again; empty when it can."""
        self.whole = whole
        self.truth_reason = ""
        self._truth: dict[bool, Outcome | None] = {}
        self._noisy: list[Outcome] | None = None
        self._dtypes: dict[int, torch.dtype] = {}
        self.draws = Draws()
        self.setting = Setting()
        self.later = False
        """True when the program's call is over, and its modes with it."""
        self.differentiates = torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
        if self.reason:
            return
        self._marks = {}
        try:
            for _, tensor in self.world.tensors:
                if self.stays(tensor):
                    self._marks[id(tensor)] = _mark(tensor)
                else:
                    self.frozen.of(tensor)
        except Uncopied as error:
            self.reason = str(error)

    def stays(self, tensor: torch.Tensor) -> bool:
        """True for a parameter: a call only reads it, so it needs no copy (unless `whole`)."""
        return (
            not self.whole and isinstance(tensor, torch.nn.Parameter) and not tensor._backward_hooks
        )

    def keep_all(self) -> None:
        """Copy the parameters too: the trial is to be made again later."""
        for _, tensor in self.world.tensors:
            self.frozen.of(tensor)
        self.whole = True

    def let_go(self) -> None:
        """Hold copies alone: the program's own tensors are not kept alive."""
        self.world.rebase(lambda t: self.frozen.of(t) if t in self.frozen else t)
        self.frozen = self.frozen.rebased()
        self._marks = {}

    def changed_parameters(self) -> bool:
        """True when the call has written to what was thought to be only read."""
        return any(
            self._marks[id(tensor)] != _mark(tensor)
            for _, tensor in self.world.tensors
            if id(tensor) in self._marks
        )

    def observe(self, out: Any, error: BaseException | None) -> Outcome:
        """What came of the program's own call."""
        seen = Outcome(error=error, stage="call" if error else "", printed=None)
        if error is None:
            keep_output(seen, out, storages(self.world.tensors), clone=True)
            seen.outputs.clear()
        keep_changes(seen, self.world, self.world.leaves(), self._was)
        return seen

    def _was(self, tensor: torch.Tensor) -> torch.Tensor | None:
        if tensor in self.frozen:
            return self.frozen.of(tensor)
        return tensor if id(tensor) in self._marks else None

    def run(
        self,
        call: Callable[..., Any],
        sent: tuple[str, ...] = (),
        mode: Any = None,
        wide: bool = False,
        eager: bool = True,
    ) -> Outcome:
        """The call once more, on copies. Raises Outside."""
        outcome = Outcome()
        copies = Copies(self.frozen, to64=wide)
        copy = copier(copies, (lambda tensor: False) if wide else self.stays)
        under = mode if mode is not None else nullcontext()
        self.draws.restore()
        then = self.setting.again() if self.later else nullcontext()
        with then, ambient(eager), self.world.as_it_was(copy) as (args, kwargs):
            inputs = [(path, copy(tensor)) for path, tensor in self.world.tensors]
            with held_back(eager) as printed:
                try:
                    with under:
                        out = call(*args, **kwargs)
                except Outside:
                    raise
                except Exception as error:
                    outcome.error, outcome.stage = error, "call"
                else:
                    keep_output(outcome, out, storages(inputs), clone=True)
                    del out
            outcome.printed = printed.getvalue()
            outcome.drew = self.draws.drawn()
            before = {id(made): self.frozen.of(t) for t, made in copies.pairs() if t in self.frozen}
            stays = {id(tensor): tensor for _, tensor in inputs}
            leaves = self.world.leaves(args, kwargs)
            if not wide:
                keep_changes(
                    outcome, self.world, leaves, lambda t: before.get(id(t), stays.get(id(t)))
                )
            else:
                keep_changes(outcome, self.world, leaves, lambda t: None)
            if sent and outcome.error is None and self.differentiates:
                self._grade(outcome, inputs, sent, under, eager)
        outcome.outputs.clear()
        return outcome

    def _grade(
        self, outcome: Outcome, inputs: Any, sent: tuple[str, ...], under: Any, eager: bool
    ) -> None:
        wanted, seen = [], set()
        for path, tensor in inputs:
            if tensor.requires_grad and id(tensor) not in seen:
                seen.add(id(tensor))
                wanted.append((path, tensor))
        with held_back(eager):
            for label in sent:
                if outcome.error is None:
                    cotangent = self._random if label == RANDOM else self._ones
                    keep_gradients(outcome, wanted, cotangent, label, label != sent[-1], under)

    def _random(self, number: int, out: torch.Tensor) -> torch.Tensor:
        generator = torch.Generator().manual_seed(7919 + number)
        dtype = self._dtypes.setdefault(number, out.dtype)
        kind = torch.complex64 if dtype.is_complex else torch.float32
        made = torch.randn(out.shape, generator=generator, dtype=kind)
        return made.to(dtype).to(out.dtype).to(out.device)

    def _ones(self, number: int, out: torch.Tensor) -> torch.Tensor:
        return torch.ones((), dtype=out.dtype, device=out.device).expand(out.shape)

    # -- the referee ----------------------------------------------------------------------------

    def truth(self, eager: Outcome, sent: tuple[str, ...]) -> Outcome | None:
        """The original in float64, with the draws of `eager`; None, with a reason, without."""
        graded = bool(sent)
        if graded not in self._truth and not self.truth_reason:
            self._truth[graded] = self._in_float64(eager, sent)
        return self._truth.get(graded)

    def _in_float64(self, eager: Outcome, sent: tuple[str, ...]) -> Outcome | None:
        try:
            found = self.run(self.function, sent, Wide(self._drawn(eager)), wide=True)
        except (Outside, Uncopied, RuntimeError) as error:
            self.truth_reason = f"float64 failed: {_line(error)}"
            return None
        if found.error is not None and eager.error is None:
            self.truth_reason = f"float64 failed: {_line(found.error)}"
            return None
        return found

    def unit(self) -> float:
        """The unit in the last place of the coarsest numbers that the call computes in."""
        dtypes = [dtype for _, dtype in self.setting.casts]
        dtypes += [tensor.dtype for _, tensor in self.world.tensors]
        halves = (torch.float16, torch.bfloat16)
        return max((torch.finfo(one).eps for one in dtypes if one in halves), default=0.0)

    def _drawn(self, eager: Outcome) -> list[Any]:
        if not eager.drew:
            return []
        recorder = Recorder()
        self.run(self.function, (), recorder)
        return recorder.draws

    def noisy(self, eager: Outcome, sent: tuple[str, ...], casts: bool) -> list[Outcome]:
        """The original with each result moved in its last place, some times."""
        if self._noisy is None:
            draws = self._drawn(eager)
            self._noisy = []
            for seed in range(OPINIONS):
                one = self.run(self.function, sent, Noise(draws, seed, casts))
                if one.error is None:
                    self._noisy.append(one)
        return self._noisy


def _mark(tensor: torch.Tensor) -> Any:
    version = None if tensor.is_inference() else tensor._version
    grad = tensor.grad
    return version, id(grad), None if grad is None else grad._version


def _line(error: BaseException | None) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:120]}" if lines else type(error).__name__


def refused(error: BaseException | None) -> bool:
    """True for an error of the compiler's own: nothing was computed that could be wrong."""
    if error is None:
        return False
    if "Detected recompile when torch.compile stance is" in str(error):
        return True
    homes = ("torch._dynamo.exc", "torch._inductor.exc")
    return any(kind.__module__ in homes for kind in type(error).__mro__)


@dataclass(frozen=True)
class Rules:
    """How a trial is judged."""

    referee: str = "float64"
    """`float64` or `eager`."""
    strict_casts: bool = False


class Judge:
    """Compares outcomes of one trial; tells what is left after float64 and noise had their say."""

    def __init__(self, trial: Trial, rules: Rules, eager: Outcome, sent: tuple[str, ...]) -> None:
        self.trial, self.rules, self.eager, self.sent = trial, rules, eager, sent
        self.verdict = Verdict(drew=eager.drew)

    def look(self, compiled: Outcome, values: bool, only: str = "") -> list[compare.Difference]:
        """Add the disagreements of one outcome to the verdict; those that were new."""
        strict = self.rules.strict_casts
        found = compare.differences(compiled, self.eager, None, values=values, only=only)
        if not found:
            return []
        numeric = [one for one in found if one.kind in ("value", "nan", "integer", "state")]
        if numeric and values and not strict:
            found = self._refereed(compiled, only)
        told = []
        if found and values:
            found, unsure = self._second_opinion(compiled, found)
            self._add(self.verdict.inconclusive, unsure)
        told = self._add(self.verdict.differences, found)
        return told

    def _refereed(self, compiled: Outcome, only: str) -> list[compare.Difference]:
        truth = None
        if self.rules.referee == "float64":
            truth = self.trial.truth(self.eager, self.sent)
            why = self.trial.truth_reason
            self.verdict.referee = "float64" if truth is not None else f"original ({why})"
        else:
            self.verdict.referee = "original (asked for)"
        inside = self.trial.unit()
        return compare.differences(
            compiled, self.eager, truth, values=True, only=only, inside=inside
        )

    def _add(
        self, to: list[compare.Difference], found: list[compare.Difference]
    ) -> list[compare.Difference]:
        known = {one.path for one in to}
        fresh = [one for one in found if one.path not in known]
        to.extend(fresh)
        return fresh

    def _second_opinion(
        self, compiled: Outcome, found: list[compare.Difference]
    ) -> tuple[list[compare.Difference], list[compare.Difference]]:
        """(what stands, what the original itself does under noise)."""
        moved = [one for one in found if one.path != "exception"]
        if not moved:
            return found, []
        noisy = self.trial.noisy(self.eager, self.sent, not self.rules.strict_casts)
        unsure = [one for one in moved if _within(one, compiled, self.eager, noisy)]
        return [one for one in found if one not in unsure], unsure


def _within(
    one: compare.Difference, compiled: Outcome, eager: Outcome, noisy: list[Outcome]
) -> bool:
    """True when the original moves as much by itself."""
    if not noisy:
        return False
    if one.mask is None:
        mine = eager.plain.get(one.path, None)
        return any(run.plain.get(one.path, None) != mine for run in noisy)
    e, c = eager.tensors[one.path], compiled.tensors[one.path]
    if e.is_complex():
        e, c = torch.view_as_real(e.resolve_conj()), torch.view_as_real(c.resolve_conj())
    runs = []
    for run in noisy:
        other = run.tensors.get(one.path)
        if other is None or (other.shape != eager.tensors[one.path].shape):
            return True
        other = torch.view_as_real(other.resolve_conj()) if other.is_complex() else other
        runs.append(other)
    if not e.is_floating_point():
        stack = torch.stack([e, *runs])
        if e.dtype == torch.bool:
            stack, c = stack.to(torch.uint8), c.to(torch.uint8)
        inside = (c >= stack.amin(0)) & (c <= stack.amax(0))
        return bool((inside | ~one.mask).all())
    wide = torch.stack([run.double() for run in runs])
    if one.kind == "nan":
        kinds = torch.stack([compare.kinds(run) for run in wide])
        moved = (kinds != compare.kinds(e.double())).any(0)
        return bool((moved | ~one.mask).all())
    spread = (wide - e.double()).abs().amax(0).nan_to_num(float("inf"))
    off = (c.double() - e.double()).abs()
    return bool(((off <= BEYOND * spread) | ~one.mask).all())


@contextmanager
def no_compiling() -> Iterator[None]:
    """Compiled code is run as it is: where it would be compiled again, the call raises."""
    with torch.compiler.set_stance("fail_on_recompile"):
        yield


def judge(
    trial: Trial,
    seen: Outcome,
    compiled: Callable[..., Any] | None,
    rules: Rules,
    *,
    own_randomness: bool,
    races: int = 0,
) -> Verdict:
    """What the original says of the program's own call, and of gradients of the compiled code.

    `compiled` is run again, on copies, for its gradients; None when that must not be. With
    `own_randomness` compiled code draws other numbers than the original does.
    """
    began = time.perf_counter()
    sent = (RANDOM, SUM) if trial.differentiates and compiled is not None else ()
    try:
        eager = trial.run(trial.function, sent)
        verdict = _judged(trial, seen, compiled, rules, eager, sent, own_randomness, races)
    except (Outside, Uncopied) as error:
        verdict = Verdict(unproven=str(error))
    verdict.seconds = time.perf_counter() - began
    verdict.bytes = trial.frozen.bytes
    return verdict


def _judged(
    trial: Trial,
    seen: Outcome,
    compiled: Callable[..., Any] | None,
    rules: Rules,
    eager: Outcome,
    sent: tuple[str, ...],
    own_randomness: bool,
    races: int,
) -> Verdict:
    if refused(seen.error) and (eager.error is None or eager.stage == "backward"):
        return Verdict(unproven=f"it could not be compiled: {_line(seen.error)}")
    values = not (eager.drew and own_randomness)
    judge = Judge(trial, rules, eager, sent)
    verdict = judge.verdict
    judge.look(seen, values, only="call")
    if not values:
        verdict.partly = DRAWS
    if verdict.differences or compiled is None or not values or seen.error is not None:
        return verdict
    graded = bool(sent) and eager.graded
    labels = [*sent, *([RANDOM] * races)] if graded or eager.stage == "backward" else []
    for label in labels:
        with no_compiling():
            again = trial.run(compiled, (label,), eager=False)
        if again.error is not None and "fail_on_recompile" in str(again.error):
            verdict.partly = "for copies of its inputs it would be compiled again"
            return verdict
        verdict.graded = True
        again.labels = (label,)
        fresh = judge.look(again, True)
        if fresh:
            _race(trial, compiled, label, again, fresh)
            break
    return verdict


def _race(
    trial: Trial,
    compiled: Callable[..., Any],
    label: str,
    again: Outcome,
    fresh: list[compare.Difference],
) -> None:
    """Mark differences that come and go from run to run."""
    for _ in range(3):
        with no_compiling():
            other = trial.run(compiled, (label,), eager=False)
        for one in fresh:
            a, b = again.tensors.get(one.path), other.tensors.get(one.path)
            if a is None or b is None or a.shape != b.shape:
                continue
            if compare.tensor(one.path, b, a, None) is not None and one.kind != "race":
                one.kind = "race"
                one.text += "; two runs of the compiled code differ from each other"


def judge_again(
    trial: Trial,
    compiled: Callable[..., Any],
    rules: Rules,
    labels: tuple[str, ...] = (RANDOM, SUM),
    values: bool = True,
) -> Verdict:
    """What the original says of another compiled callable, for the same call.

    Without `labels` no gradients are taken. What is told of is as in `judge`.
    """
    began = time.perf_counter()
    sent = labels if trial.differentiates else ()
    try:
        eager = trial.run(trial.function, sent)
        judge = Judge(trial, rules, eager, sent)
        for label in sent or ("",):
            again = trial.run(compiled, (label,) if label else (), eager=False)
            again.labels = (label,) if label else ("nothing",)
            if type(again.error).__name__ in _COMPILING:
                raise Outside(f"it could not be compiled anew: {_line(again.error)}")
            judge.verdict.graded |= bool(label) and eager.graded
            judge.look(again, values, only="" if label else "call")
            if judge.verdict.differences:
                break
        verdict = judge.verdict
    except (Outside, Uncopied) as error:
        verdict = Verdict(unproven=str(error))
    verdict.seconds = time.perf_counter() - began
    verdict.bytes = trial.frozen.bytes
    return verdict
