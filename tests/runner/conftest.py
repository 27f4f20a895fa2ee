"""Runs a program twice, plainly and under watch, and compares what can be seen from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PYTHON = os.environ.get("REEFWATCH_TEST_PYTHON", sys.executable)
SRC = Path(__file__).parents[2] / "src"
WATCHED = [PYTHON, "-m", "reefwatch", "run", "--quiet"]


class Bench:
    """A folder with a program in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {**os.environ, "PYTHONPATH": str(SRC), "PYTHONDONTWRITEBYTECODE": "1"}
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "PYTHONSAFEPATH", "COLUMNS"):
            self.environ.pop(name, None)

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(text, str):
            text = textwrap.dedent(text).encode()
        path.write_bytes(text)
        return path

    def run(
        self, command: list[str], *, stdin: str = "", interrupt_at: bytes = b"", cwd: str = "."
    ) -> subprocess.CompletedProcess[bytes]:
        process = subprocess.Popen(
            command,
            cwd=self.folder / cwd,
            env=self.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        seen = b""
        if interrupt_at:
            assert process.stdout is not None
            while interrupt_at not in seen:
                more = process.stdout.readline()
                assert more, f"it ended before saying {interrupt_at!r}"
                seen += more
            time.sleep(0.3)  # the line after the print is the one to be interrupted
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(stdin.encode(), timeout=120)
        return subprocess.CompletedProcess(command, process.returncode, seen + out, err)

    def plain(self, *args: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
        return self.run([PYTHON, *args], **more)

    def watched(self, *args: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
        return self.run([*WATCHED, *args], **more)

    def twins(self, *args: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
        """Assert that both runs look the same from outside; the watched one."""
        plain, watched = self.plain(*args, **more), self.watched(*args, **more)
        assert watched.stdout == plain.stdout
        assert self.users(watched.stderr) == plain.stderr
        assert watched.returncode == plain.returncode
        return watched

    @staticmethod
    def users(stderr: bytes) -> bytes:
        """What the program itself wrote: our own lines have a prefix."""
        lines = stderr.splitlines(keepends=True)
        return b"".join(line for line in lines if not line.startswith(b"reefwatch: "))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def twins(bench: Bench) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    return bench.twins
