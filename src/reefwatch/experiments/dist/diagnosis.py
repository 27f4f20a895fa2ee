"""Where each rank stood when one did not come on: who is to blame, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Row = dict[str, Any]
_STATES = {"T": "is stopped (SIGSTOP)", "t": "is stopped by a debugger", "D": "waits in the kernel"}


def told(
    stop: Mapping[str, Any],
    dumps: Mapping[int, Row],
    names: Mapping[int, str],
    world: int,
    kernel: Mapping[int, str] | None = None,
) -> Row:
    """Who is to blame: `{"step", "words", "ranks": to blame, "lost": without an answer, "at"}`.

    `dumps` holds the ranks whose agents answered; `names` the steps by number; `kernel` what is
    known of the processes of ranks that did not answer.
    """
    lost = [rank for rank in range(world) if rank not in dumps]
    steps = [d["step"] for d in dumps.values() if d.get("step", -1) >= 0]
    step = min(steps, default=int(stop.get("step", -1)))
    name = names.get(step, "the start of the process group")
    blamed, words = _blame(stop, dumps, lost, kernel or {})
    waiting = [f"rank {r} {_stands(d)}" for r, d in sorted(dumps.items()) if r not in blamed]
    text = f"{name}: {words}" + (f"; {'; '.join(waiting[:4])}" if waiting else "")
    at = next((d["at"] for d in dumps.values() if d.get("at")), "")
    return {"step": step, "words": text, "ranks": blamed, "lost": lost, "at": at}


def _blame(
    stop: Mapping[str, Any], dumps: Mapping[int, Row], lost: list[int], kernel: Mapping[int, str]
) -> tuple[list[int], str]:
    dead = {r: d["exit"] for r, d in dumps.items() if d.get("exit")}
    if dead:
        return sorted(dead), ", ".join(f"rank {r} {why}" for r, why in sorted(dead.items()))
    if lost:
        told = str(stop.get("why", "")) if stop.get("rank") in lost else ""
        silent = told or "does not answer any more"
        return lost, ", ".join(f"rank {r} {kernel.get(r) or silent}" for r in lost)
    still = {
        r: _STATES[d["state"]]
        for r, d in dumps.items()
        if d.get("silent") and d.get("state") in _STATES
    }
    if still:
        return sorted(still), ", ".join(f"rank {r} {why}" for r, why in sorted(still.items()))
    raised = {r: d["raised"] for r, d in dumps.items() if d.get("raised")}
    if raised:
        return sorted(raised), ", ".join(
            f"rank {r} raised {why}" for r, why in sorted(raised.items())
        )
    behind = [
        r
        for r, d in dumps.items()
        if d.get("step", -1) < max(x.get("step", -1) for x in dumps.values())
    ]
    inside = [r for r, d in dumps.items() if not d.get("after")]
    if behind:
        return behind, f"{_ranks(behind)} did not come to it"
    if inside and len(inside) < len(dumps):
        return inside, f"{_ranks(inside)} did not come out of it, the others did"
    places = {r: str(d.get("at") or "") for r, d in sorted(dumps.items())}
    if len(set(places.values())) > 1:
        each = ", ".join(f"rank {r} at {at or 'no known place'}" for r, at in places.items())
        return sorted(dumps), f"no rank came out of it, and they stand at different places: {each}"
    return sorted(dumps), "no rank came out of it: the transport or a device stands still"


def _ranks(ranks: list[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


def _stands(dump: Row) -> str:
    if dump.get("silent"):
        return "gave no answer"
    did = "had ended it" if dump.get("after") else "waits"
    return f"{did} at {dump['at']}" if dump.get("at") and not dump.get("after") else did
