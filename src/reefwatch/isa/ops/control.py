"""Branches, barriers, waits, caches, and instructions that change nothing that is modelled."""

from __future__ import annotations

import re

from reefwatch.isa.emit import Emitter, Refused
from reefwatch.isa.table import TABLE

_NOTHING = [
    "s_nop",
    "s_clause",
    "s_delay_alu",
    "s_sendmsg",
    "s_setprio",
    "s_sleep",
    "s_inst_prefetch",
    "s_icache_inv",
    "s_set_inst_prefetch_distance",
    "s_waitcnt_depctr",
    "s_wait_alu",
    "s_wait_event",
    "s_code_end",
    "s_waitcnt_expcnt",
    "s_wait_expcnt",
]
_RAW = ("s_wait", "s_delay_alu", "s_sendmsg")
CONDITIONS = ("scc0", "scc1", "vccz", "vccnz", "execz", "execnz")


@TABLE.special(*_NOTHING)
def _nothing(emit: Emitter) -> None:
    """Timing, priorities, prefetching: no value depends on them."""
    raw = emit.instruction.mnemonic.startswith(_RAW)
    if not raw and any(operand.kind != "c" for operand in emit.operands):
        raise Refused(f"operand {emit.operands[0].text} is not modelled")
    emit.effect.facts["delay"] = emit.instruction.text
    emit.operands.clear()


@TABLE.special("s_waitcnt")
def _waitcnt(emit: Emitter) -> None:
    """Wait until at most so many operations of a counter are under way."""
    text = emit.take().text
    if text == "0":
        emit.effect.waits = tuple((counter, 0) for counter in emit.gen.counters)
        return
    found = re.findall(r"(\w+)cnt\((\d+)\)", text)
    rest = re.sub(r"\w+cnt\(\d+\)|[&\s]", "", text)
    if not found or rest:
        raise Refused(f"wait {text}")
    emit.effect.waits = tuple((name, int(n)) for name, n in found if name != "exp")


@TABLE.special("s_waitcnt_vscnt", "s_waitcnt_vmcnt", "s_waitcnt_lgkmcnt")
def _waitcnt_one(emit: Emitter) -> None:
    register, _, limit = emit.take().text.partition(",")
    if register.strip() != "null":
        raise Refused("a wait on a register")
    counter = emit.instruction.mnemonic.removeprefix("s_waitcnt_").removesuffix("cnt")
    emit.effect.waits = ((counter, int(limit.strip(), 0)),)


@TABLE.special(
    *(f"s_wait_{name}cnt" for name in ("load", "store", "ds", "km", "sample", "bvh")),
    "s_wait_loadcnt_dscnt", "s_wait_storecnt_dscnt",
)  # fmt: skip
def _wait_split(emit: Emitter) -> None:
    """gfx12: one counter, or two packed as eight bits each above the other."""
    value = int(emit.take().text, 0)
    names = emit.instruction.mnemonic.removeprefix("s_wait_").split("_")
    names = [name.removesuffix("cnt") for name in names]
    limits = [value >> 8 & 63, value & 63] if len(names) == 2 else [value]
    emit.effect.waits = tuple(zip(names, limits, strict=True))


@TABLE.special("s_endpgm")
def _end(emit: Emitter) -> None:
    emit.effect.kind = "end"


@TABLE.special("s_trap")
def _trap(emit: Emitter) -> None:
    """An assertion, or a place that is never reached: reported, and the wave ends."""
    if emit.take().kind != "c":
        raise Refused("a trap without a number")
    emit.effect.kind = "end"
    emit.line(f"trap(st, {emit.constant(emit.instruction)})")


@TABLE.special("s_barrier")
def _barrier(emit: Emitter) -> None:
    emit.effect.kind = "barrier"


@TABLE.special("s_barrier_signal", "s_barrier_wait")
def _split_barrier(emit: Emitter) -> None:
    if emit.take().value != -1:
        raise Refused("a named barrier")
    emit.effect.kind = emit.instruction.mnemonic.removeprefix("s_").replace("barrier_", "")


@TABLE.special("s_branch", *(f"s_cbranch_{name}" for name in CONDITIONS))
def _branch(emit: Emitter) -> None:
    emit.effect.kind = "branch"
    emit.effect.facts["label"] = emit.take().text
    emit.effect.facts["when"] = emit.instruction.mnemonic.rpartition("_")[2]


@TABLE.special("buffer_gl0_inv", "buffer_gl1_inv", "global_inv", "buffer_inv", "buffer_wbinvl1_vol")
def _invalidate(emit: Emitter) -> None:
    """Caches are not modelled; the observer of stale reads looks at these."""
    emit.effect.kind = "invalidate"
    emit.effect.facts["scope"] = emit.modifiers.pop("scope", "")
    emit.effect.facts["sc"] = (emit.flag("sc0"), emit.flag("sc1"))


@TABLE.special("buffer_wbl2", "global_wb", "global_wbinv")
def _write_back(emit: Emitter) -> None:
    emit.effect.kind = "write back"
    emit.modifiers.pop("scope", "")
    emit.flag("sc0")
    emit.flag("sc1")
