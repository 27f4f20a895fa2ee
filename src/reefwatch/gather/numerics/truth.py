"""Each op of an examined step computed once more, in float64, from its own inputs.

Asked for by `--truth`. Sees wrong kernels; a model that computes the wrong thing with right kernels
is the reference's to find. Everything here reads; nothing is written to a tensor of the run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from reefwatch.core.fact import Evidence, Unknown
from reefwatch.gather.dtypes import short
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.numerics import layers, movement, pointwise, products  # noqa: F401
from reefwatch.gather.numerics.cause import Cause, wrong
from reefwatch.gather.numerics.fallback import again
from reefwatch.gather.numerics.formula import Inputs, find
from reefwatch.gather.numerics.plans import Plan, Plans
from reefwatch.gather.numerics.verdicts import measure
from reefwatch.measure.rounding import UNIT

TURNS = 3
"""How often one call (op, shapes, dtypes, place) is judged."""
PART = 0.8
"""Of the exam's allowance, what the truth may take."""
STEP = 0.2
"""Of the exam's allowance, what it may take in one step: a step that costs too much is cut, and
then its backward would never be seen."""
STEADY_SECONDS = 0.05
"""What it may take in one examined step after that."""
NEW_OP, NEW_PLACE, AGAIN = range(3)
"""What is judged first: ops with shapes and dtypes that were not judged yet, then the same op at
other places, then all of them with other samples."""


class Truth(Instrument):
    """Judges each dispatched op; writes one row per op, shapes, dtypes and place."""

    name = "numerics.truth"
    contract = "numerics"
    wants_ops = True
    wants_before = True

    def arm(self, tools: Tools) -> None:
        self._tools = tools
        self._torch = tools.torch
        self._plans = Plans(tools.torch)
        self._cause = Cause(tools.torch, self._plans)
        self._rows: dict[Any, dict[str, Any]] = {}
        self._turns: dict[Any, int] = {}
        self._reasons: dict[str, set[str]] = {}
        self._level = NEW_OP
        self._judged: set[Any] = set()
        self._left: set[Any] = set()
        self._spent = self._step_spent = 0.0
        self._allowance = PART * float(tools.options.get("exam", 20.0))
        self._before: tuple[Any, Any] | None = None
        self._changed: set[int] = set()
        self._steps = 0
        try:
            import numpy
        except ImportError:
            self._numpy: Any = None
        else:
            self._numpy = numpy

    def open(self, step: int) -> None:
        self._step_spent = 0.0
        self._steps += 1
        self._new = self._full = False
        self._left.clear()

    def close(self, step: int) -> bool:
        self._write()
        if not self._full and self._level < AGAIN:  # everything of this level was judged
            self._level += 1
            return True
        return self._new

    def before_op(self, func: Any, args: Any, kwargs: Any) -> None:
        """Keep what an op is about to write over."""
        self._before = None
        plan = self._plans.of(func)
        if plan.kept and not plan.reason and self._room():
            new = self._key(func, args, kwargs) not in self._judged
            if new or self._level > NEW_OP:
                self._before = (func, self._plans.copied(plan, args, kwargs))

    def on_op(self, call: Any) -> None:
        before, self._before = self._before, None
        if self._numpy is None:
            return
        plan = self._plans.of(call.func)
        if plan.silent:
            return
        key = (self._key(call.func, call.args, call.kwargs), call.site)
        if plan.reason:
            self._unproven(plan.reason, key)
            return
        turn = self._turns.get(key, 0)
        level = AGAIN if turn else NEW_PLACE if key[0] in self._judged else NEW_OP
        if turn >= TURNS or level > self._level:
            return
        if not self._room():
            self._full = True
            self._left.add(key)
            return
        args, kwargs = call.args, call.kwargs
        if plan.kept:
            if before is None or before[0] is not call.func:
                return
            args, kwargs = before[1]
        began = time.perf_counter()
        self._judge(plan, call, key, turn, args, kwargs)
        self._turns[key] = turn + 1
        self._judged.add(key[0])
        taken = time.perf_counter() - began
        self._spent += taken
        self._step_spent += taken

    def disarm(self) -> None:
        self._write()
        sink = self._tools.sink
        if self._numpy is None:
            sink.fact(
                "numerics.truth", Unknown("the truth is computed with numpy, which is missing")
            )
            return
        if not self._steps:
            sink.fact("numerics.truth", Unknown("no step was examined"))
            return
        judged = self._judged
        unproven = {reason: len(keys) for reason, keys in self._reasons.items()}
        left = {key[0] for key in self._left} - judged
        value: dict[str, Any] = {
            "judged": len(judged),
            "of": len(judged | left | {key[0] for keys in self._reasons.values() for key in keys}),
            "calls": len(self._turns),
            "left": len(left),
            "unproven": unproven,
            "seconds": self._spent,
        }
        sink.fact(
            "numerics.truth",
            Evidence("numerics.truth", value, source="float64, from each op's inputs"),
        )

    # -- one op -----------------------------------------------------------------------------

    def _room(self) -> bool:
        within = self._spent < self._allowance and self._step_spent < STEP * self._allowance
        return within or self._step_spent < STEADY_SECONDS

    def _judge(self, plan: Plan, call: Any, key: Any, turn: int, args: Any, kwargs: Any) -> None:
        outs = self._plans.outputs(plan, call)
        floats = [out for out in outs if out is not None and out.is_floating_point()]
        dtype = short((floats or [out for out in outs if out is not None])[0].dtype) if outs else ""
        op = Inputs(
            self._numpy,
            call.name,
            args,
            kwargs,
            outs,
            dtype,
            "f64" if dtype == "f64" else "f32",
            self._loose(call, dtype),
            turn,
        )
        try:
            with self._numpy.errstate(all="ignore"):
                self._measure(op, plan, call, key)
        except Exception as error:  # one formula that fails is no reason to judge nothing
            self._unproven(
                f"the formula of {call.name} failed: {type(error).__name__}: {error}", key
            )

    def _measure(self, op: Inputs, plan: Plan, call: Any, key: Any) -> None:
        made = find(call.name)
        witness, why = "own formula", ""
        told = made(op) if made is not None else None
        if told is None:
            told, witness, why = again(self._torch, op, call.func, plan)
        if told is None:
            self._unproven(why, key)
            return
        for one in told:
            out = op.outs[one.output] if one.output < len(op.outs) else op.outs[0]
            kind = short(out.dtype)
            row = measure(self._numpy, one, kind if kind in UNIT else "f64")
            if wrong(row):
                row.update(self._why(key, one.output, op, plan, call))
            self._keep(key, call, row, witness, kind, out)

    def _why(self, key: Any, output: int, op: Inputs, plan: Plan, call: Any) -> dict[str, str]:
        """What a second run of a wrong op shows; that of the first time it was wrong stays."""
        kept = self._rows.get((key, output), {})
        if "again" in kept:
            return {name: kept[name] for name in ("again", "elsewhere")}
        random = self._torch.Tag.nondeterministic_seeded in getattr(call.func, "tags", ())
        if not self._cause.left or random:
            return {}

        def judge(other: Inputs) -> Any:
            made = find(call.name)
            told = made(other) if made is not None else None
            return told if told is not None else again(self._torch, other, call.func, plan)[0]

        return self._cause.of(call.func, plan, op, judge)

    def _keep(
        self, key: Any, call: Any, row: dict[str, Any], witness: str, kind: str, out: Any
    ) -> None:
        site = call.site
        row.update(
            op=call.name,
            dtype=kind,
            shape=list(out.shape),
            witness=witness,
            module=site.module,
            file=site.file,
            line=site.line,
            phase=site.phase,
            step=call.step,
        )
        kept = self._rows.get((key, row["output"]))
        if kept is None:
            self._rows[key, row["output"]] = row
            row["judged"] = 1
        else:
            row["judged"] = kept["judged"] = kept["judged"] + 1
            if (row["error"], row.get("deviations", 0)) > (
                kept["error"],
                kept.get("deviations", 0),
            ):
                self._rows[key, row["output"]] = row
        self._changed.add(id(self._rows[key, row["output"]]))
        self._new = True

    def _loose(self, call: Any, dtype: str) -> float:
        """The relative error that TF32 puts on each factor, where the flags allow it."""
        if dtype != "f32" or call.out is None:
            return 0.0
        tensor = next((a for a in call.args if isinstance(a, self._torch.Tensor)), None)
        if tensor is None or tensor.device.type != "cuda":
            return 0.0
        flags = self._torch.backends
        try:
            conv = "conv" in call.name
            on = flags.cudnn.allow_tf32 if conv else flags.cuda.matmul.allow_tf32
        except RuntimeError:  # old and new names of the flag were mixed
            on = True
        return UNIT["tf32"] if on else 0.0

    def _key(self, func: Any, args: Any, kwargs: Any) -> Any:
        return id(func), tuple(self._words(args)), tuple(self._words(kwargs.values()))

    def _words(self, values: Any) -> Iterator[Any]:
        for value in values:
            if isinstance(value, self._torch.Tensor):
                yield value.shape, value.dtype
            elif isinstance(value, (list, tuple)):
                yield tuple(self._words(value))
            elif isinstance(value, float):
                yield "float"  # a learning rate or a scale that changes is no other call
            else:
                yield str(value)

    def _unproven(self, reason: str, key: Any) -> None:
        self._reasons.setdefault(reason, set()).add(key)

    def _write(self) -> None:
        for number, row in enumerate(self._rows.values()):
            if id(row) in self._changed:
                self._tools.sink.event("numerics.op", row, id=str(number))
        self._changed.clear()
