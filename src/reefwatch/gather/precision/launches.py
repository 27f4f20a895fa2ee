"""What a profiler trace says of launches: ops, the kernels that they launched, and where.

Kept small on purpose: an op or a kernel is a few numbers in arrays, and names are kept once.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

OPS = ("cpu_op", "operator")
KERNELS = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
NOTES = ("user_annotation", "cpu_instant_event")
CALLS = ("cuda_runtime", "cuda_driver", "runtime", "hip_runtime")
NESTED = 64
"""How many ops are looked through for the one that encloses a moment."""
_STEP = re.compile(r"ProfilerStep#(\d+)")
_DTYPES = {
    "float": "f32",
    "double": "f64",
    "c10::BFloat16": "bf16",
    "c10::Half": "f16",
    "c10::Float8_e4m3fn": "f8e4m3",
    "c10::Float8_e4m3fnuz": "f8e4m3",
    "c10::Float8_e5m2": "f8e5m2",
    "c10::Float8_e5m2fnuz": "f8e5m2",
    "signed char": "i8",
    "unsigned char": "u8",
    "int": "i32",
    "long int": "i64",
    "long": "i64",
    "short": "i16",
    "bool": "bool",
    "c10::complex<float>": "c64",
    "c10::complex<double>": "c128",
}
Signature = tuple[str, tuple[str, ...], str]
"""Op, dtypes of its tensors, their shapes as text."""
_NO_OP: Signature = ("", (), "")


class Words:
    """Each text once, as a number."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def number(self, word: Any) -> int:
        at = self._numbers.get(word)
        if at is None:
            at = self._numbers[word] = len(self.all)
            self.all.append(word)
        return at


class Spans:
    """Intervals on threads that do not cross one another, with a value each."""

    def __init__(self) -> None:
        self._rows: dict[Any, list[tuple[float, float, Any]]] = defaultdict(list)
        self._sorted = False

    def __bool__(self) -> bool:
        return bool(self._rows)

    def add(self, thread: Any, start: float, end: float, value: Any) -> None:
        self._rows[thread].append((start, end, value))

    def at(self, thread: Any, when: float) -> Any:
        """The value of the innermost interval around `when`; None outside of all."""
        if not self._sorted:
            for rows in self._rows.values():
                rows.sort(key=lambda row: row[0])
            self._sorted = True
        rows = self._rows.get(thread, [])
        if not rows:
            return None
        at = bisect_right(rows, when, key=lambda row: row[0]) - 1
        for n in range(at, max(-1, at - 64), -1):
            if rows[n][1] >= when:
                return rows[n][2]
        return None

    def values(self) -> list[Any]:
        return [row[2] for rows in self._rows.values() for row in rows]


class Launches:
    """All ops and kernels of a trace. Fill it with `take`, then read."""

    def __init__(self) -> None:
        self.signatures = Words()
        self.names = Words()
        self.stacks = Words()
        self.steps = Spans()
        self.backward = Spans()
        """Autograd nodes, by the sequence number of their forward op."""
        self.optimizer = Spans()
        self.attention = Spans()
        self.op_signature = array("I")
        self.op_when = array("d")
        self.op_end = array("d")
        self.op_thread = array("q")
        self.op_sequence = array("q")
        self.op_stack = array("i")
        self._op_of: dict[int, int] = {}
        self._first_of: dict[int, int] = {}
        self.kernel_name = array("I")
        self.kernel_id = array("q")
        self.kernel_time = array("d")
        self.kernel_call = array("q")
        self.call_id = array("q")
        self.call_when = array("d")
        self.call_thread = array("q")
        self._own_ids = False
        self._calls: dict[int, int] | None = None
        self._ops_of_thread: dict[int, list[int]] = {}
        self.framed = False
        self.typed = False

    def take(self, event: Mapping[str, Any]) -> None:
        """One event of the trace; those without a duration are left out."""
        kind = event.get("cat")
        if not isinstance(kind, str) or "dur" not in event:
            return
        kind = kind.lower()
        if kind == "python_function":
            self.framed = True
        elif kind in OPS:
            self._op(event)
        elif kind in KERNELS:
            self._kernel(event)
        elif kind in NOTES:
            self._note(event)
        elif kind in CALLS:
            thread, start, _ = _span(event)
            self.call_id.append(_int(_args(event).get("correlation")))
            self.call_when.append(start)
            self.call_thread.append(thread)

    def _op(self, event: Mapping[str, Any]) -> None:
        name, told = str(event.get("name", "")), _args(event)
        thread, start, end = _span(event)
        if name.startswith("autograd::engine::evaluate_function"):
            self.backward.add(thread, start, end, _int(told.get("Sequence number")))
            return
        types = told.get("Input type", told.get("Input Types", ()))
        dtypes: tuple[str, ...] = ()
        if isinstance(types, (list, tuple)) and types:
            dtypes = tuple(_DTYPES[t] for t in types if isinstance(t, str) and t in _DTYPES)
            self.typed = True
        shapes = _shapes(told.get("Input Dims", told.get("Input dims")))
        signature: Signature = (name, dtypes, shapes)
        if "_scaled_dot_product" in name:
            self.attention.add(thread, start, end, (name, dtypes, shapes))
        at = len(self.op_signature)
        self.op_signature.append(self.signatures.number(signature))
        self.op_when.append(start)
        self.op_end.append(end)
        self.op_thread.append(thread)
        sequence = _int(told.get("Sequence number"))
        self.op_sequence.append(sequence)
        stack = told.get("Call stack")
        self.op_stack.append(self.stacks.number(stack) if isinstance(stack, str) and stack else -1)
        number = _int(told.get("External id", told.get("external id")))
        if number >= 0:
            self._op_of[number] = at
        if sequence >= 0 and not _int(told.get("Fwd thread id")) > 0:
            self._first_of.setdefault(sequence, at)

    def _kernel(self, event: Mapping[str, Any]) -> None:
        told = _args(event)
        number = _int(told.get("External id", told.get("external id")))
        call = _int(told.get("correlation"))
        self._own_ids = self._own_ids or (number >= 0 and number != call)
        self.kernel_name.append(self.names.number(str(event.get("name", ""))))
        self.kernel_id.append(number)
        self.kernel_call.append(call)
        self.kernel_time.append(_float(event.get("dur")))

    def _note(self, event: Mapping[str, Any]) -> None:
        name = str(event.get("name", ""))
        thread, start, end = _span(event)
        step = _STEP.match(name)
        if step is not None:
            self.steps.add(0, start, end, int(step[1]))
        elif name.startswith("Optimizer.step"):
            self.optimizer.add(thread, start, end, name)

    # -- reading -----------------------------------------------------------------------------

    def op_of(self, kernel: int) -> int:
        """The op that launched a kernel; -1 when the trace does not tell.

        By External id; where that only repeats the correlation id (exports before 2.0), or is
        missing, by the runtime call and the op around it.
        """
        found = self._op_of.get(self.kernel_id[kernel], -1) if self._own_ids else -1
        return found if found >= 0 else self._around(self.kernel_call[kernel])

    def _around(self, call: int) -> int:
        if call < 0 or not self.call_id:
            return -1
        if self._calls is None:
            self._calls = {number: at for at, number in enumerate(self.call_id)}
            for at in sorted(range(len(self.op_when)), key=self.op_when.__getitem__):
                self._ops_of_thread.setdefault(self.op_thread[at], []).append(at)
        at = self._calls.get(call, -1)
        ops = self._ops_of_thread.get(self.call_thread[at], []) if at >= 0 else []
        when = self.call_when[at]
        last = bisect_right(ops, when, key=self.op_when.__getitem__) - 1
        for n in range(last, max(-1, last - NESTED), -1):
            if self.op_end[ops[n]] >= when:
                return ops[n]
        return -1

    def signature(self, op: int) -> Signature:
        """Op, dtypes, shapes."""
        signature: Signature = _NO_OP if op < 0 else self.signatures.all[self.op_signature[op]]
        return signature

    def phase(self, op: int) -> str:
        """`forward`, `backward`, `optimizer`, or "" when no op is known."""
        if op < 0:
            return ""
        thread, when = self.op_thread[op], self.op_when[op]
        if self.backward.at(thread, when) is not None:
            return "backward"
        return "optimizer" if self.optimizer.at(thread, when) is not None else "forward"

    def forward_of(self, op: int) -> int:
        """The forward op of a backward one; the op itself when there is none."""
        sequence = self.backward.at(self.op_thread[op], self.op_when[op])
        return op if sequence is None else self._first_of.get(sequence, op)

    def step(self, op: int) -> int | None:
        """The profiler step in which an op was called."""
        found: int | None = None if op < 0 else self.steps.at(0, self.op_when[op])
        return found


def _args(event: Mapping[str, Any]) -> Mapping[str, Any]:
    told = event.get("args")
    return told if isinstance(told, dict) else {}


def _span(event: Mapping[str, Any]) -> tuple[int, float, float]:
    start = _float(event.get("ts"))
    return hash((event.get("pid"), event.get("tid"))), start, start + _float(event.get("dur"))


def _int(value: Any) -> int:
    return value if isinstance(value, int) else -1


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return 0.0


def _shapes(dims: Any) -> str:
    """`[64, 3, 7, 7] x [128, 64]`: the first three tensors."""
    if not isinstance(dims, (list, tuple)):
        return ""
    kept = [one for one in dims if isinstance(one, list) and one and isinstance(one[0], int)]
    return " x ".join(str(one) for one in kept[:3])[:160]
