"""What `reefwatch dist` says when a rank, the store, the address, a mask or a disk fails.

Ranks are started as srun would: one process each, with RANK, WORLD_SIZE and the address. Each
scenario must end within its limit, with exit 3 or 2, name what happened, and leave no process.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

MARK = "REEFWATCH_FAILURE_MARK"
DEADLINE = 6.0


@dataclass
class Launch:
    """Some ranks of one launch."""

    world: int
    words: list[str]
    environ: Callable[[int], dict[str, str]] = lambda rank: {}
    before: Callable[[int], None] = lambda rank: None
    ranks: list[int] = field(default_factory=list)

    def start(self) -> None:
        self.mark = os.urandom(6).hex()
        self.folder = tempfile.mkdtemp(prefix="dist-failures-")
        self.port = free_port()
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        for rank in self.ranks or range(self.world):
            self.processes[rank] = self._one(rank)

    def _one(self, rank: int) -> subprocess.Popen[bytes]:
        told = {
            "RANK": str(rank),
            "WORLD_SIZE": str(self.world),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(self.world),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self.port),
            "OMP_NUM_THREADS": "1",
            MARK: self.mark,
            **self.environ(rank),
        }
        environ = {k: v for k, v in os.environ.items() if not k.endswith("VISIBLE_DEVICES")}
        out = Path(self.folder) / f"out{rank}"
        command = [sys.executable, "-m", "reefwatch", "dist", "--backend", "gloo"]
        command += ["--out", f"{self.folder}/run", *self.words]
        with out.open("wb") as file:
            return subprocess.Popen(
                command,
                env={**environ, **told},
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
                preexec_fn=lambda: self.before(rank),
            )

    def text(self, rank: int) -> str:
        return (Path(self.folder) / f"out{rank}").read_text(errors="replace")

    def all_text(self) -> str:
        return "\n".join(self.text(rank) for rank in self.processes)

    def await_text(self, words: str, seconds: float = 60.0) -> bool:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if words in self.all_text():
                return True
            time.sleep(0.05)
        return False

    def worker(self, rank: int) -> int:
        """The process in which that rank uses the backend."""
        return children(self.processes[rank].pid)[-1]

    def finish(self, seconds: float) -> tuple[dict[int, int | None], float]:
        """(exit codes, seconds until the last one ended); None for one that had to be killed."""
        begun = time.monotonic()
        codes: dict[int, int | None] = {}
        for rank, process in self.processes.items():
            try:
                codes[rank] = process.wait(max(0.1, begun + seconds - time.monotonic()))
            except subprocess.TimeoutExpired:
                codes[rank] = None
        return codes, time.monotonic() - begun

    def left(self) -> list[int]:
        """Processes of this launch that still run; they are ended."""
        time.sleep(0.5)
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (entry / "environ").read_bytes():
                    state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                    if state != "Z":
                        found.append(int(entry.name))
            except OSError:
                continue
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


MATRIX = [
    "--phases",
    "matrix",
    "--dtypes",
    "float32,bfloat16,int64",
    "--level",
    "full",
    "--deadline",
    f"{DEADLINE}s",
    "--meet",
    "30s",
]
TINY = ["--phases", "concurrency", "--deadline", "20s", "--meet", "30s"]


def _running(launch: Launch) -> None:
    launch.start()
    if not launch.await_text("matrix (0 of"):
        raise RuntimeError(f"the ranks did not come to work: {launch.all_text()[-500:]}")
    time.sleep(1.0)


def killed_worker() -> Launch:
    launch = Launch(2, MATRIX)
    _running(launch)
    os.kill(launch.worker(1), signal.SIGKILL)
    return launch


def killed_rank() -> Launch:
    launch = Launch(2, MATRIX)
    _running(launch)
    launch.processes[1].kill()
    return launch


def stopped_worker() -> Launch:
    launch = Launch(2, MATRIX)
    _running(launch)
    os.kill(launch.worker(1), signal.SIGSTOP)
    return launch


def stopped_rank() -> Launch:
    launch = Launch(2, MATRIX)
    _running(launch)
    launch.processes[1].send_signal(signal.SIGSTOP)
    return launch


def dead_store() -> Launch:
    launch = Launch(2, MATRIX)
    _running(launch)
    launch.processes[0].kill()  # which keeps the store
    return launch


def wrong_address() -> Launch:
    launch = Launch(2, ["--meet", "4s"], lambda r: {"MASTER_ADDR": "192.0.2.1"} if r else {})
    launch.start()
    return launch


def wrong_name() -> Launch:
    launch = Launch(
        2, ["--meet", "4s"], lambda r: {"MASTER_ADDR": "no-such-host.invalid"} if r else {}
    )
    launch.start()
    return launch


def masked() -> Launch:
    launch = Launch(2, TINY, lambda r: {"HIP_VISIBLE_DEVICES": "0,1" if r else "0"})
    launch.start()
    return launch


def full_disk() -> Launch:
    def before(rank: int) -> None:
        if rank == 1:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))

    words = ["--phases", "matrix", "--collectives", "all_reduce", "--deadline", "20s"]
    launch = Launch(2, words, before=before)
    launch.start()
    return launch


SCENARIOS: dict[str, tuple[Callable[[], Launch], str, float, tuple[int, ...]]] = {
    "a worker is killed": (killed_worker, r"rank 1 was killed by SIGKILL", 150.0, ()),
    "a rank is killed": (killed_rank, r"rank 1 is gone", 150.0, (1,)),
    "a worker is stopped": (stopped_worker, r"rank 1 is stopped \(SIGSTOP\)", 150.0, ()),
    "a rank is stopped": (stopped_rank, r"rank 1 is stopped \(SIGSTOP\)", 150.0, (1,)),
    "the store dies": (dead_store, r"the store at .* does not answer", 150.0, (0,)),
    "a wrong MASTER_ADDR": (wrong_address, r"rank 1 of 2 does not reach the store", 150.0, ()),
    "a name that is not known": (
        wrong_name,
        r"rank 1 of 2 does not reach the store.*not known",
        150.0,
        (),
    ),
    "masks differ by rank": (masked, r"HIP_VISIBLE_DEVICES differs", 150.0, ()),
    "a full disk on one rank": (
        full_disk,
        r"ends early .(file too large|no space left)",
        150.0,
        (),
    ),
}
"""What is done, what must be said, the limit in seconds, and the ranks that have no exit code."""


def verdict(name: str) -> tuple[bool, dict[int, int | None], float, str, int]:
    """(met, exit codes, seconds, what was said, processes left) of one scenario."""
    act, pattern, limit, gone = SCENARIOS[name]
    launch = act()
    codes, seconds = launch.finish(limit)
    left = launch.left()
    text = " ".join(launch.all_text().split())
    told = re.search(pattern, text)
    fine = all(code in (2, 3) for rank, code in codes.items() if rank not in gone)
    said = (
        text[max(0, told.start() - 20) : told.end() + 120] if told else f"(not said) {text[-200:]}"
    )
    return fine and bool(told) and not left and seconds < limit, codes, seconds, said, len(left)


def table(names: list[str]) -> tuple[str, bool]:
    """(Markdown, whether every bar was met)."""
    lines = [
        "| what fails | exit codes | seconds | said | left | |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    every = True
    for name in names:
        met, codes, seconds, said, left = verdict(name)
        every = every and met
        each = ", ".join(f"{rank}: {code}" for rank, code in codes.items())
        words = said.replace("|", "/")
        bar = "met" if met else "NOT met"
        lines.append(f"| {name} | {each} | {seconds:.0f} | {words} | {left} | {bar} |")
        print(
            f"dist: {name}: {'met' if met else 'NOT met'} ({each}, {seconds:.0f} s)",
            file=sys.stderr,
        )
    return "\n".join(lines), every


if __name__ == "__main__":
    text, met = table(sys.argv[1:] or list(SCENARIOS))
    print(text)
    sys.exit(0 if met else 1)
