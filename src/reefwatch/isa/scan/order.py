"""Orders that the text does not assure: LDS reads at barriers, acquires that do not reach all."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reefwatch.isa.scan.finding import Found, at
from reefwatch.isa.text import Instruction, Program

_LDS_READ = ("ds_read", "ds_load")


def _lines(program: Program) -> Iterator[tuple[Instruction, bool]]:
    """Instructions in order, and whether a label stands before."""
    starts = set(program.labels.values())
    for index, slot in enumerate(program.slots):
        for n, instruction in enumerate(slot):
            yield instruction, n == 0 and index in starts


def reads_at_barriers(program: Program) -> list[Found]:
    """LDS reads that were issued in a block and are under way at a barrier in it.

    Shape of https://github.com/triton-lang/triton/issues/11696: another wave may overwrite what
    is still to be read.
    """
    under_way, found = 0, []
    for instruction, fresh in _lines(program):
        name = instruction.mnemonic
        if fresh:
            under_way = 0
        if name.startswith(_LDS_READ):
            under_way += 1
        elif name.startswith("s_wait"):
            under_way = min(under_way, _left(instruction))
        elif name in ("s_barrier", "s_barrier_signal") and under_way:
            message = f"{under_way} LDS reads are under way at a barrier"
            found.append(at("reads at a barrier", message, instruction))
    return found


def _left(instruction: Instruction) -> int:
    """How many LDS operations a wait leaves under way; many where it says nothing of them."""
    text = instruction.operands[0].text
    if instruction.mnemonic == "s_waitcnt":
        wait = re.search(r"lgkmcnt\((\d+)\)", text)
        return int(wait[1]) if wait else 0 if text == "0" else 1 << 30
    if instruction.mnemonic == "s_wait_dscnt":
        return int(text, 0)
    if instruction.mnemonic.endswith("_dscnt"):
        return int(text, 0) & 63
    return 1 << 30


def acquires(program: Program, target: str) -> list[Found]:
    """RDNA: after an acquire and a barrier every wave must make its own cache forget, then load.

    Shape of https://github.com/triton-lang/triton/pull/10906 and /11289. The first-level cache of
    gfx10 to gfx12 belongs to half of a workgroup processor, so one wave's acquire is not another's.
    gfx9 workgroups share one.
    """
    if target.startswith("gfx9"):
        return []
    acquired: Instruction | None = None
    passed = False
    found = []
    for instruction, _ in _lines(program):
        name = instruction.mnemonic
        if name == "buffer_gl1_inv" or (name == "global_inv" and _device(instruction)):
            acquired, passed = instruction, False
        elif name in ("buffer_gl0_inv", "global_inv"):
            if passed:
                acquired, passed = None, False
        elif name in ("s_barrier", "s_barrier_wait"):
            passed = acquired is not None
        elif passed and re.match(r"(global|buffer|flat)_load_", name):
            found.append(at("acquire without invalidate", "a load after an acquire and a barrier, "
                            "with a cache that was not told to forget", instruction))  # fmt: skip
            acquired, passed = None, False
    return found


def _device(instruction: Instruction) -> bool:
    return instruction.modifiers.get("scope", "") in ("SCOPE_DEV", "SCOPE_SYS")
