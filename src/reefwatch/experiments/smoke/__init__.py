"""Small programs on each GPU, in child processes: a crash or a hang of the driver is a finding.

One child per device runs all tests in turn and says before each what it begins. When it dies or is
silent for too long, that test is the one, and a new child goes on behind it.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from reefwatch.core.fact import Evidence, Fact, Unknown

TESTS = ("sum", "gemm", "tall", "conv", "attention", "compile", "triton", "copies")
_CHILD = Path(__file__).with_name("child.py")
_SOURCE = "a child process"
Row = dict[str, Any]


def run(limit: float, say: Callable[[str], None] | None = None) -> dict[str, Fact]:
    """The facts `smoke.*`, `machine.arch_list` and `machine.mapped`; `limit` s for each test."""
    told = say or (lambda text: None)
    told("asking torch for its devices")
    about = _ask(limit)
    if "error" in about:
        unknown = Unknown(about["error"])
        lost: dict[str, Fact] = {f"smoke.{name}": unknown for name in ("import", *TESTS, "devices")}
        if about.get("state"):  # it is there, and does not load: that is a finding
            row = _row("this Python", about["state"], about["error"], 0.0)
            lost["smoke.import"] = Evidence("smoke.import", [row], source=_SOURCE)
        return lost
    rows: dict[str, list[Row]] = {name: [] for name in TESTS}
    devices = [f"cuda:{n}" for n in range(len(about["devices"]))] or ["cpu"]
    for device in devices:
        for name, row in _on_device(device, limit, told):
            rows[name].append(row)
    facts: dict[str, Fact] = {
        f"smoke.{name}": Evidence(f"smoke.{name}", found, source=_SOURCE)
        for name, found in rows.items()
    }
    row = _row("this Python", "ok", "", 0.0)
    facts["smoke.import"] = Evidence("smoke.import", [row], source=_SOURCE)
    facts["smoke.devices"] = Evidence("smoke.devices", about["devices"], source=_SOURCE)
    if about["arch_list"]:
        name = "machine.arch_list"
        facts[name] = Evidence(name, about["arch_list"], source="torch.cuda.get_arch_list()")
    facts["machine.mapped"] = Evidence(
        "machine.mapped", about["mapped"], source="/proc/self/maps of a child process"
    )
    return facts


def _ask(limit: float) -> dict[str, Any]:
    """What torch says of its devices, or `{"error": why not}`."""
    child = Child(["about"], limit)
    answers = list(child.lines())
    if answers and "devices" in answers[-1]:
        told: dict[str, Any] = answers[-1]
        return told
    if answers and "missing" in answers[-1]:
        return {"error": str(answers[-1]["missing"])}
    state, detail = child.ending()
    return {"error": f"import torch: {detail}", "state": state}


def _on_device(device: str, limit: float, say: Callable[[str], None]) -> list[tuple[str, Row]]:
    """(test, row) of each test on one device."""
    left, found = list(TESTS), []
    while left:
        child, begun, started = Child([device, *left], limit), "", time.monotonic()
        for line in child.lines():
            if "begin" in line:
                begun, started = str(line["begin"]), time.monotonic()
                say(f"{device}: {begun}")
            elif line.get("test") in left:
                name = str(line["test"])
                found.append((name, _row(device, line["state"], line["detail"], line["seconds"])))
                left.remove(name)
                begun = ""
        if not left:
            break
        state, detail = child.ending()
        lost = begun if begun in left else left[0]
        found.append((lost, _row(device, state, detail, time.monotonic() - started)))
        left.remove(lost)
    return found


def _row(device: str, state: object, detail: object, seconds: object) -> Row:
    taken = round(seconds, 3) if isinstance(seconds, (int, float)) else 0.0
    return {"device": device, "state": str(state), "detail": str(detail), "seconds": taken}


class Child:
    """One child process; its answers are JSON lines on a pipe of their own."""

    def __init__(self, words: list[str], limit: float, program: Path = _CHILD) -> None:
        self._limit = limit
        self._hung = False
        self._said = ""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        out, into = os.pipe()
        self._out = out
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-u", str(program), str(into), *words],
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                pass_fds=(into,),
                start_new_session=True,
                cwd=tempfile.gettempdir(),
            )
        finally:
            os.close(into)

    def lines(self) -> Any:
        """The answers as they come; ends when the child does, or is silent for too long."""
        waiting, ended = b"", False
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self._out, selectors.EVENT_READ)
                while True:
                    if not selector.select(self._limit):
                        self._hung = True
                        return
                    part = os.read(self._out, 1 << 16)
                    if not part:
                        ended = True
                        return
                    *whole, waiting = (waiting + part).split(b"\n")
                    yield from (line for line in map(_parsed, whole) if line)
        finally:
            self._end(ended)

    def _end(self, ended: bool) -> None:
        """Wait for a child that closed its pipe, kill any other: after Ctrl-C too."""
        if ended:
            try:
                self._process.wait(self._limit)
            except subprocess.TimeoutExpired:
                self._hung = True
        with suppress(OSError):  # its own children too, the compiler's among them
            os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)  # one that waits in the driver is left to the kernel
        os.close(self._out)
        self._errors.seek(0)
        self._said = self._errors.read()[-4096:].decode(errors="replace")
        self._errors.close()

    def ending(self) -> tuple[str, str]:
        """(`hang`, `crash` or `error`, why) of a child that did not finish."""
        if self._hung:
            return "hang", f"no answer in {self._limit:g} s; {self._last()}".rstrip("; ")
        code = self._process.returncode
        if code is not None and code < 0:
            return "crash", f"killed by {_signal(-code)}; {self._last()}".rstrip("; ")
        return "error", f"ended with {code}; {self._last()}".rstrip("; ")

    def _last(self) -> str:
        """The last line that it wrote to its stderr."""
        lines = [line.strip() for line in self._said.splitlines() if line.strip()]
        return lines[-1][:200] if lines else ""


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        parsed = json.loads(line)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
