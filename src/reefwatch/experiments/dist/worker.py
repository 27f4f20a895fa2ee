"""The process of one rank in which the backend is used. It may hang or die: its agent sees to it.

It says each step before it begins and when it has ended, as JSON lines on a pipe. A thread of its
own answers the agent's question where it stands.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
import warnings
from contextlib import suppress
from datetime import timedelta
from typing import Any

from reefwatch.experiments.dist import control
from reefwatch.experiments.dist.steps import Bench, Row, Step
from reefwatch.gather.dist import group

_PR_SET_PDEATHSIG = 1
_ANEW = 4
"""Groups that are made for the sake of a refused call; a backend whose sums are always wrong must
not use them all up."""


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the one that started it ends."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Mouth:
    """What the worker says to its agent."""

    def __init__(self, fd: int) -> None:
        self._fd, self._lock = fd, threading.Lock()

    def say(self, **words: Any) -> None:
        raw = (json.dumps(words, default=str) + "\n").encode("utf-8", "backslashreplace")
        with self._lock:
            while raw:
                raw = raw[os.write(self._fd, raw) :]


class Place:
    """Where the worker stands, for its other thread."""

    def __init__(self, mouth: Mouth) -> None:
        self.step, self.raised, self.after = -1, "", False
        self._mouth, self._main = mouth, threading.get_ident()

    def answer(self, fd: int) -> None:
        """Answer each line on the pipe with where the main thread stands."""
        with os.fdopen(fd) as asked:
            for _ in asked:
                self._mouth.say(dump=self.told())

    def told(self) -> Row:
        frame = sys._current_frames().get(self._main)
        where = []
        while frame is not None:
            where.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
            frame = frame.f_back
        return {
            "step": self.step,
            "raised": self.raised,
            "after": self.after,
            "at": place(where),
            "flight": flight(),
        }


def place(frames: list[tuple[str, int, str]]) -> str:
    """The innermost frame outside torch and the standard library: `file:line function`."""
    for file, line, name in frames:
        if f"{os.sep}torch{os.sep}" not in file and not file.startswith(
            sys.base_prefix + os.sep + "lib"
        ):
            return f"{os.path.basename(file)}:{line} {name}"
    return ""


def flight() -> int:
    """Collectives that were issued, by the flight recorder; 0 when it tells nothing."""
    return len(group.recorded())


def main(plan: dict[str, Any], out: int, asked: int) -> int:
    """Run the steps from `plan["start"]` on; the exit code of the process."""
    die_with_parent()
    mouth = Mouth(out)
    spot = Place(mouth)
    threading.Thread(target=spot.answer, args=(asked,), daemon=True).start()
    try:
        _work(plan, mouth, spot)
    except BaseException as error:  # its agent tells it, there is nobody else to hear
        mouth.say(failed=f"{type(error).__name__}: {_line(error)}", step=spot.step, at=_at(error))
        return 1
    return 0


def _work(plan: dict[str, Any], mouth: Mouth, spot: Place) -> None:
    import torch

    from reefwatch.experiments.dist import inventory, phases

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # deprecated names are tried on purpose
    bench = _bench(torch, plan)
    if plan.get("inject"):
        _inject(plan["inject"], bench)
    mouth.say(inventory=inventory.of_rank(bench))
    _meet(bench, plan)
    for number, step in enumerate(phases.steps(plan)):
        if number < plan["start"]:
            continue
        spot.step, spot.raised, spot.after = number, "", False
        mouth.say(begin=number)
        row, again = _one(bench, step, number, spot)
        mouth.say(end=number, row=row)
        if again:
            mouth.say(again=number + 1)
            return
    mouth.say(done=True)


def _one(bench: Bench, step: Step, number: int, spot: Place) -> tuple[Row, bool]:
    """(row, whether the group must be made anew) of one step."""
    from reefwatch.experiments.dist import afterwards

    if step.group and bench.rank not in step.group:
        row: Row = {"state": "skipped", "detail": "not in this group"}
    else:
        try:
            row = step.run(bench)
        except Exception as error:
            row = {
                "state": "error",
                "detail": f"{type(error).__name__}: {_line(error)}",
                "at": _at(error),
                "refused": _refused(error),
            }
            spot.raised = row["detail"]
    spot.after = True
    word = "broken" if row["state"] == "error" and _broken(bench, row) else row["state"]
    states = bench.tell_all(f"s{number}", word)
    failed = [state in ("error", "broken") for state in states if state != "skipped"]
    if "broken" in states or (any(failed) and not all(failed)):
        if row["state"] == "error" and all(failed):
            row["state"] = "unsupported" if row["refused"] else "error"
        elif not all(failed):
            row["others"] = ", ".join(
                f"rank {r}: {s}" for r, s in enumerate(states) if s != "skipped"
            )
        return row, True
    if not any(failed):
        return row, False
    was = ""
    if row["state"] == "error":
        row["state"] = "unsupported" if row["refused"] else "error"
        was = row["left"] = afterwards.left(bench, f"{number}", step.group)
    # the same answer on all ranks, also on those that are not in the group
    lost = afterwards.LOST in bench.tell_all(f"after{number}", was)
    return row, lost and bench.options["generation"] < _ANEW


def _refused(error: BaseException) -> bool:
    """True when torch or its backend raised it; false for a fault of ours."""
    from reefwatch.experiments.dist import forms

    if isinstance(error, (NotImplementedError, forms.Undefined)):
        return "not implemented for" not in str(error)  # an op of our own on a dtype
    trace, inside = error.__traceback__, ("distributed", "parallel", "_ops.py")
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if f"{os.sep}torch{os.sep}" in file and any(part in file for part in inside):
            return True
        trace = trace.tb_next
    return False


def _broken(bench: Bench, row: Row) -> bool:
    """True when the group cannot be used after this error."""
    return bench.backend != "gloo" and (
        "DistBackendError" in row["detail"] or "CUDA error" in row["detail"]
    )


def _bench(torch: Any, plan: dict[str, Any]) -> Bench:
    device: Any = "cpu"
    if plan["device"] != "cpu":
        count = torch.cuda.device_count()
        device = torch.device("cuda", plan["local_rank"] % max(1, count))
        torch.cuda.set_device(device)
    store = control.client(
        plan["host"], plan["port"], f"reefwatch-w{plan['generation']}", plan["setup"]
    )
    keys = ("level", "backend", "rank", "world", "seed")
    return Bench(torch, device, store=store, options=plan, **{k: plan[k] for k in keys})


def _meet(bench: Bench, plan: dict[str, Any]) -> None:
    """Make the process group, and the groups within."""
    import torch.distributed as dist

    from reefwatch.experiments.dist import matrix

    more = {} if bench.device == "cpu" else {"device_id": bench.device}
    dist.init_process_group(
        bench.backend,
        store=dist.PrefixStore("pg", bench.store),
        rank=bench.rank,
        world_size=bench.world,
        timeout=timedelta(seconds=plan["timeout"]),
        **more,
    )
    bench.groups[()] = None
    for ranks in matrix.groups(bench.world):
        made = dist.new_group(list(ranks), timeout=timedelta(seconds=plan["timeout"]))
        bench.groups[ranks] = made if bench.rank in ranks else None


def _inject(path: str, bench: Bench) -> None:
    """Run a file that plants a fault: how the checks themselves are tried."""
    import runpy

    runpy.run_path(path, {"bench": bench, "rank": bench.rank, "world": bench.world})


def _line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [""])[0][:300]


def _at(error: BaseException) -> str:
    frames, trace = [], error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append((code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    return place(frames[::-1])


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
