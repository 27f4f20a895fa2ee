"""What else says what a launch should give: the interpreter, other builds, a reference, a rerun."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from reefwatch import isa
from reefwatch.experiments.kernels import execution
from reefwatch.experiments.kernels.subject import Subject
from reefwatch.gather.kernels import interpreted, source, values

SEED = 11
"""Of the random wave order."""
SHUFFLED = 60_000
"""Instructions of waves up to which a launch runs in random order too: a wave at a time is slow."""


def examine(
    examiner: Any, row: dict[str, Any], first: Subject, ran: Any, before: Sequence[Any]
) -> None:
    """Fill `row["subjects"]`: one for each target, each with its witnesses."""
    said: dict[str, Sequence[Any]] = {}
    row["interpreter"] = _interpreter(examiner, row, first, before, said, ran)
    row["reference"] = _reference(examiner, row, first, before, said)
    subjects: dict[str, tuple[Subject, Any]] = {}
    told: dict[str, Any] = {}
    for target in examiner.driver.targets:
        first.arguments.put(before)
        try:
            subject = examiner.built(target)
        except Exception as error:
            told[target] = {"status": "failed", "reason": f"{type(error).__name__}: {error}"[:400]}
            continue
        done = ran
        if target != first.compiled.target:
            done = execution.run(
                subject.compiled,
                subject.grid,
                first.arguments,
                tuple(isa.OBSERVERS),
                most=examiner.limits.workgroups,
            )
        subjects[target] = subject, done
        told[target] = {
            "status": done.status,
            "reason": done.reason,
            "reports": done.reports,
            "approximate": done.approximate,
            "seconds": round(done.seconds, 4),
            "waves": done.waves,
            "scan": execution.scanned(subject.compiled),
            "compares": _compares(subject.asm),
            "witnesses": [],
        }
    row["subjects"] = told
    outputs = {t: done.contents for t, (_, done) in subjects.items() if done.status == "ran"}
    for target, (subject, done) in subjects.items():
        if done.status == "ran":
            bench = Bench(examiner, first.arguments, subject, done.contents, before)
            bench.waves = done.waves
            told[target]["witnesses"] = bench.all(said, outputs)
    if examiner.spool is not None:
        first.arguments.put(before)
        examiner.spool.exchange(examiner, row, subjects, before, said)
    first.arguments.put(before)
    if any(not w["agrees"] for one in told.values() for w in one.get("witnesses", ())):
        call = examiner.call
        assert call is not None
        row["source"] = source.of(call.jit)
        row["inputs"] = source.inputs(examiner.torch, call, first.arguments)


class Bench:
    """Holds one subject's result against the witnesses."""

    def __init__(
        self,
        examiner: Any,
        arguments: Any,
        subject: Subject,
        mine: Sequence[Any],
        before: Sequence[Any],
    ) -> None:
        self.examiner, self.arguments, self.subject = examiner, arguments, subject
        self.mine, self.before = mine, before
        self.waves = 0
        self.said: dict[str, Sequence[Any]] = {}
        """What the interpreter and the reference gave, for the same inputs."""
        self._moved: list[Any] | None = None

    def all(
        self, said: dict[str, Sequence[Any]], outputs: dict[str, Sequence[Any]]
    ) -> list[dict[str, Any]]:
        self.said = said
        told = [self.held(kind, kind, theirs) for kind, theirs in said.items()]
        for target, theirs in outputs.items():
            if target != self.subject.compiled.target:
                told.append(self.held("target", target, theirs))
        rerun = others(self.subject.compiled.warps)
        for warps in rerun[:1] if said else rerun:  # one more is enough beside an independent one
            theirs_ = self._rerun(warps)
            if theirs_ is not None:
                told.append(self.held("warps", f"{warps} warps", theirs_))
        text, warps = self.subject.compiled.text, self.subject.compiled.warps
        if "s_barrier" in text and warps > 1 and self.waves <= SHUFFLED:
            self.arguments.put(self.before)
            again = self._run(schedule=SEED)
            if again.status == "ran":
                told.append(self.held("schedule", "random wave order", again.contents))
        return told

    def held(self, kind: str, name: str, theirs: Sequence[Any]) -> dict[str, Any]:
        """What a witness says; a difference is held against the kernel's own sensitivity."""
        torch = self.examiner.torch
        told = values.held(torch, self.arguments, self.before, self.mine, theirs)
        if not told["agrees"]:
            moved = values.held(torch, self.arguments, self.before, self.mine, theirs, self.moved())
            if moved["agrees"]:
                told = {**moved, "sensitive": True}
        if not told["agrees"]:
            told["backed"] = [one for one, what in self.said.items() if self._alike(theirs, what)]
        return {"kind": kind, "name": name, **told}

    def _alike(self, one: Sequence[Any], other: Sequence[Any]) -> bool:
        torch, moved = self.examiner.torch, self.moved()
        told = values.held(torch, self.arguments, self.before, one, other, moved)
        return bool(told["agrees"])

    def moved(self) -> list[Any]:
        """How far the result moves when the inputs move by an ulp; measured once."""
        if self._moved is None:
            torch, text = self.examiner.torch, self.subject.compiled.text
            least = values.XF32 if "_xf32" in text else 0.0
            runs = []
            for seed in (1, 2):
                self.arguments.put(values.nudged(torch, self.arguments, self.before, seed, least))
                ran = self._run()
                if ran.status == "ran":
                    runs.append(ran.contents)
            self.arguments.put(self.before)
            base = self.mine
            self._moved = values.movement(torch, self.arguments, base, runs or [base])
        return self._moved

    def _run(self, schedule: str | int = "lockstep") -> Any:
        return execution.run(
            self.subject.compiled,
            self.subject.grid,
            self.arguments,
            schedule=schedule,
            most=self.examiner.limits.workgroups,
        )

    def _rerun(self, warps: int) -> Sequence[Any] | None:
        self.arguments.put(self.before)
        try:
            other = self.examiner.built(self.subject.compiled.target, num_warps=warps)
        except Exception:
            return None
        ran = execution.run(
            other.compiled, other.grid, self.arguments, most=self.examiner.limits.workgroups
        )
        return ran.contents if ran.status == "ran" else None


def others(warps: int) -> list[int]:
    """Other numbers of warps to compile for."""
    return [n for n in (warps // 2, warps * 2) if 1 <= n <= 8]


def _interpreter(
    examiner: Any,
    row: dict[str, Any],
    first: Subject,
    before: Sequence[Any],
    said: dict[str, Sequence[Any]],
    ran: Any,
) -> str:
    """Run the launch in Triton's interpreter; why there is no answer, else ""."""
    if any(report["kind"] in ("out of bounds", "fault") for report in ran.reports):
        return "not asked: it works on real memory, and the kernel leaves its arguments'"
    call = examiner.call
    assert call is not None
    programs = first.grid[0] * first.grid[1] * first.grid[2]
    if programs > examiner.limits.interpreted:
        return f"{programs} programs are too many for it"
    first.arguments.put(before)
    try:
        interpreted.run(call.jit, call.args, call.kwargs, first.grid)
    except interpreted.NoAnswer as error:
        return str(error)
    finally:
        after = first.arguments.keep()
        first.arguments.put(before)
    said["interpreter"] = after
    return ""


def _reference(
    examiner: Any,
    row: dict[str, Any],
    first: Subject,
    before: Sequence[Any],
    said: dict[str, Sequence[Any]],
) -> str:
    """Ask the reference that the user named; why there is no answer, else ""."""
    name = examiner.references.get(row["name"])
    if name is None:
        return "none was named"
    call = examiner.call
    assert call is not None
    function = examiner.names.get(name) or call.jit.fn.__globals__.get(name)
    if function is None:
        return f"there is no {name} in the program"
    first.arguments.put(before)
    try:
        bound = inspect.signature(call.jit.fn).bind(
            *call.args,
            **{
                k: v
                for k, v in call.kwargs.items()
                if k in inspect.signature(call.jit.fn).parameters
            },
        )
        bound.apply_defaults()
        wanted = inspect.signature(function).parameters
        given = {k: _widened(v) for k, v in bound.arguments.items() if k in wanted}
        told = function(**given)
        if not isinstance(told, dict):
            told = {_only_output(first, before, row, examiner): told}
        for key, value in told.items():
            tensor = bound.arguments[key]
            tensor.copy_(value.reshape(tensor.shape).to(tensor.dtype))
        said["reference"] = first.arguments.keep()
    except Exception as error:
        return f"{name} failed: {type(error).__name__}: {error}"[:300]
    finally:
        first.arguments.put(before)
    return ""


def _widened(value: Any) -> Any:
    """A copy in f64 of a tensor of floats; others as they are."""
    if not hasattr(value, "is_floating_point"):
        return value
    copy = value.detach().clone()
    return copy.double() if value.is_floating_point() else copy


def _only_output(first: Subject, before: Sequence[Any], row: dict[str, Any], examiner: Any) -> str:
    """The one tensor that the launch writes. Raises ValueError when there are several."""
    ran = execution.run(first.compiled, first.grid, first.arguments)
    names = [
        buffer.name
        for buffer, was, now in zip(first.arguments.buffers, before, ran.contents, strict=True)
        if (was != now).any()
    ]
    if len(names) != 1:
        raise ValueError(f"the kernel writes {', '.join(names) or 'nothing'}: return a dict")
    return names[0]


def _compares(asm: Any) -> list[int]:
    """Comparisons in Triton's IR before and after the passes for the target; [] when not kept."""
    try:
        texts = [asm["ttir"], asm["ttgir"]]
    except (KeyError, TypeError):
        return []
    return [text.count("arith.cmpi ") + text.count("arith.cmpf ") for text in texts]
