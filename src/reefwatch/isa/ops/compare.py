"""Vector comparisons: every condition over every type, into a lane mask or into EXEC."""

from reefwatch.isa.emit import Emitter, Refused
from reefwatch.isa.table import TABLE
from reefwatch.isa.text import EXEC, Operand

_ORDERED = {"lt": "a < b", "eq": "a == b", "le": "a <= b", "gt": "a > b", "ge": "a >= b"}
_INTEGER = {**_ORDERED, "ne": "a != b", "f": "a != a", "t": "a == a"}
_FLOAT = {
    **_ORDERED,
    "lg": "(a < b) | (a > b)",
    "o": "~(isnan(a) | isnan(b))",
    "u": "isnan(a) | isnan(b)",
    "nge": "~(a >= b)",
    "nlg": "~((a < b) | (a > b))",
    "ngt": "~(a > b)",
    "nle": "~(a <= b)",
    "neq": "a != b",
    "nlt": "~(a < b)",
    "f": "zeros_like(a, bool)",
    "t": "ones_like(a, bool)",
}
_KINDS = dict.fromkeys(("i16", "u16", "i32", "u32", "i64", "u64"), _INTEGER)
_KINDS |= dict.fromkeys(("f16", "f32", "f64"), _FLOAT)


def _rows(prefix: str) -> str:
    rows = [
        f"{prefix}_{name}_{kind} | mask | {kind} {kind} | {meaning}"
        for kind, conditions in _KINDS.items()
        for name, meaning in conditions.items()
    ]
    rows += [
        f"{prefix}_class_{kind} | mask | {kind} {other} | classes(a, b)"
        for kind, other in (("f16", "u16"), ("f32", "u32"), ("f64", "u32"))
    ]
    return "\n".join(rows)


TABLE.lanes(_rows("v_cmp"))


def _into_exec(emit: Emitter) -> None:
    """`v_cmpx`: the result becomes EXEC, named in the text or not."""
    name = emit.instruction.base.replace("v_cmpx", "v_cmp", 1)
    if len(emit.operands) < 3:
        emit.operands.insert(0, Operand("s", "exec", EXEC, emit.gen.wave // 32))
    elif emit.operands[0].index != EXEC:
        raise Refused("a v_cmpx that writes another mask too")
    emit.lane_row(TABLE.lane[name])


for _row in [name for name in TABLE.lane if name.startswith("v_cmp_")]:
    TABLE.special(_row.replace("v_cmp", "v_cmpx", 1))(_into_exec)
