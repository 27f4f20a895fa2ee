"""A worker as its agent has it: started, listened to, asked where it stands, ended."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from typing import Any

Row = dict[str, Any]


class Child:
    """One worker process: forked on the CPU, started anew for a GPU, as HIP and CUDA ask."""

    def __init__(self, plan: Row) -> None:
        self._out, out = os.pipe()
        asked, self._ask = os.pipe()
        self._waiting = b""
        self.step, self.since = -1, time.monotonic()
        self.ended = False
        self._status: int | None = None
        self._popen: subprocess.Popen[bytes] | None = None
        if plan["device"] == "cpu":
            self.pid = _forked(plan, out, asked, (self._out, self._ask))
        else:
            words = [sys.executable, "-m", "reefwatch.experiments.dist.worker"]
            given = [json.dumps(plan), str(out), str(asked)]
            self._popen = subprocess.Popen(
                [*words, *given], pass_fds=(out, asked), stdin=subprocess.DEVNULL, stdout=2
            )
            self.pid = self._popen.pid
        os.close(out)
        os.close(asked)

    def lines(self, seconds: float) -> list[Row]:
        """What it said within so many seconds; `ended` is set when it said its last."""
        if self.ended or not select.select([self._out], [], [], seconds)[0]:
            return []
        part = os.read(self._out, 1 << 20)
        if not part:
            self.ended = True
            return []
        *whole, self._waiting = (self._waiting + part).split(b"\n")
        told = [json.loads(line) for line in whole if line]
        for line in told:
            if "begin" in line or "end" in line:
                self.step, self.since = line.get("begin", line.get("end")), time.monotonic()
        return told

    def where(self, seconds: float) -> Row:
        """Where it stands, by its own word, else by the kernel's."""
        if self.ended:
            return {"exit": self.status(), "step": self.step}
        until = time.monotonic() + seconds
        with suppress(OSError):
            os.write(self._ask, b"\n")
        while time.monotonic() < until:
            for line in self.lines(0.1):
                if "dump" in line:
                    told: Row = line["dump"]
                    return told
            if self.ended:
                return {"exit": self.status(), "step": self.step}
        return {"silent": True, "state": state(self.pid), "step": self.step}

    def status(self) -> str:
        """How it ended, in words; waits a moment for it."""
        code = self._code(2.0)
        if code is None:
            return "closed its pipe"
        if code >= 0:
            return f"ended with {code}"
        with suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
        return f"was killed by signal {-code}"

    def _code(self, seconds: float) -> int | None:
        until = time.monotonic() + seconds
        while self._status is None:
            if self._popen is not None:
                self._status = self._popen.poll()
            else:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self._status = os.waitstatus_to_exitcode(status) if pid else None
            if self._status is None:
                if time.monotonic() > until:
                    return None
                time.sleep(0.02)
        return self._status

    def end(self, seconds: float = 5.0) -> None:
        """Kill it, stopped or not, and collect it."""
        if self._status is None:
            with suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
            self._code(seconds)
        for fd in (self._out, self._ask):
            with suppress(OSError):
                os.close(fd)

    def close(self, seconds: float = 5.0) -> None:
        """Let it end by itself, then be sure."""
        self._code(seconds)
        self.end()


def _forked(plan: Row, out: int, asked: int, others: tuple[int, int]) -> int:
    with warnings.catch_warnings():  # the store's thread, if any, is not needed in the child
        warnings.simplefilter("ignore")
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        for fd in others:
            os.close(fd)
        os.dup2(2, 1)  # stdout is for the report
        from reefwatch.experiments.dist import worker

        code = worker.main(plan, out, asked)
    finally:
        os._exit(code)


def state(pid: int) -> str:
    """The letter that the kernel has for a process; "" when there is none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
