"""What watching costs, and how much was seen for it.

Short blocks of plain and of watched steps alternate in one process, so that a drift of the machine
falls on both; what is reported is the median over neighbouring blocks of the ratio of their times,
examined steps included. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch
from models import WORKLOADS, Training
from torch.utils._python_dispatch import TorchDispatchMode

import reefwatch
from reefwatch.gather.moments import Moments

HERE = Path(__file__).parent
MOST_EXAM_STEPS = 400
SHORT = 8
"""Steps of a block: short, so that two neighbours see the same machine."""


@dataclass(frozen=True)
class Plan:
    device: str
    rounds: int
    steps: int
    exam: float
    budget: float
    world: int = 1


@dataclass(frozen=True)
class Block:
    """Steps in a row: wall and CPU seconds of all, wall seconds of each."""

    seconds: float
    cpu: float
    times: list[float]

    def then(self, other: Block) -> Block:
        return Block(
            self.seconds + other.seconds, self.cpu + other.cpu, [*self.times, *other.times]
        )


@dataclass
class Round:
    """One plain block and one watched block beside it. Times in seconds."""

    plain: float
    """Mean step of the plain block."""
    plain_median: float
    watched: float
    """Mean step of the steady state under watch, examined steps included."""
    watched_median: float
    ratios: list[float] = field(default_factory=list)
    """Watched over plain, of each pair of neighbouring blocks."""
    cpu_ratio: float = 0.0
    """The same ratio in CPU time of the process, which other programs disturb less."""
    exam_steps: int = 0
    exam_overhead: float = 0.0
    """Time of the exam's steps beyond that of as many plain ones."""
    exam_step: float = 0.0
    """Median of the examined steps of the exam."""
    examined: int = 0
    start: float = 0.0
    stop: float = 0.0
    """Time to begin the watch, and to end it with its report."""
    facts: dict[str, Any] = field(default_factory=dict)


class EmptyMode(TorchDispatchMode):
    """For scale: what a dispatch mode costs that does nothing."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


FOR_SCALE: dict[str, Callable[[], Any]] = {
    "identity saved-tensors hook, always on": lambda: torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: tensor, lambda tensor: tensor
    ),
    "empty dispatch mode, always on": EmptyMode,
}


class Bench:
    """One workload on one device."""

    def __init__(self, name: str, plan: Plan) -> None:
        self.plan = plan
        self.training = Training(WORKLOADS[name], plan.device, ddp=plan.world > 1)
        self.cuda = plan.device.startswith("cuda")

    def sync(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def block(self, steps: int, each: bool = False) -> Block:
        """So many steps. `each` waits for the device after every one."""
        times = []
        self.sync()
        cpu = time.process_time()
        begun = before = time.perf_counter()
        for _ in range(steps):
            self.training.step()
            if each:
                self.sync()
            now = time.perf_counter()
            times.append(now - before)
            before = now
        self.sync()
        return Block(time.perf_counter() - begun, time.process_time() - cpu, times)

    def round(self, folder: Path) -> Round:
        """One watch: its exam, then short blocks in turn, with its hooks in place and without."""
        synced = median(self.block(10, each=True).times)
        begun = time.perf_counter()
        watch = reefwatch.watch(
            claim="bf16-mixed", exam=self.plan.exam, budget=self.plan.budget, out=folder
        )
        with watch:
            started = time.perf_counter()
            exam, examined = self.exam(watch)
            plain, watched, ratios = self.pairs(watch)
            seen = counts(watch)
            stopped = time.perf_counter()
        done = time.perf_counter()
        steps = len(plain.times)
        return Round(
            plain=plain.seconds / steps,
            plain_median=median(plain.times),
            watched=watched.seconds / steps,
            watched_median=median(watched.times),
            ratios=ratios,
            cpu_ratio=watched.cpu / plain.cpu,
            exam_steps=len(exam),
            exam_overhead=sum(exam) - len(exam) * synced,
            exam_step=median(examined) / synced if examined else 0.0,
            examined=seen[1],
            start=started - begun,
            stop=done - stopped,
            facts=facts(watch),
        )

    def pairs(self, watch: reefwatch.watch) -> tuple[Block, Block, list[float]]:
        """(plain, watched, the ratio of each pair of neighbours), in the order ABBA.

        Only the hooks come and go, the watch stays: a step at each change is not counted.
        """
        plain, watched = Block(0.0, 0.0, []), Block(0.0, 0.0, [])
        ratios = []
        for number in range(max(2, self.plan.steps // SHORT)):
            told = {}
            for on in (True, False) if number % 2 else (False, True):
                switch(watch, on)
                self.block(1)
                told[on] = self.block(SHORT)
            switch(watch, True)
            plain, watched = plain.then(told[False]), watched.then(told[True])
            ratios.append(told[True].seconds / told[False].seconds)
        return plain, watched, ratios

    def exam(self, watch: reefwatch.watch) -> tuple[list[float], list[float]]:
        """(every step until the exam is over, those that were examined)."""
        every: list[float] = []
        examined: list[float] = []
        for _ in range(MOST_EXAM_STEPS):
            before = counts(watch)[0]
            (seconds,) = self.block(1, each=True).times
            every.append(seconds)
            if counts(watch)[0] > before:
                examined.append(seconds)
            if agreed(bool(scheduler(watch).ended), self.plan):
                return every, examined
        raise SystemExit(f"the exam was not over after {MOST_EXAM_STEPS} steps")

    def scale(self) -> dict[str, float]:
        """For scale: the ratio that two simple ways to look at every step cost, left on."""
        ratios: dict[str, list[float]] = {name: [] for name in FOR_SCALE}
        for _ in range(3):
            for name, mode in FOR_SCALE.items():
                plain = self.block(SHORT).seconds
                with mode():
                    ratios[name].append(self.block(SHORT).seconds / plain)
        return {name: median(values) for name, values in ratios.items()}


def switch(watch: reefwatch.watch, on: bool) -> None:
    """Put the hooks of a watch that is on in their places, or take them off. Not public either.

    The time between is not the watch's: its budget is a share of the watched steps alone.
    """
    live = watch._session._watch  # type: ignore[union-attr]
    now = time.perf_counter()
    if live._moments is not None:
        live._moments.remove()
        live._moments = None
        live._mark = now
    if on:
        live._scheduler._since += now - live._mark
        live._mark = live._boundary = now
        live._moments = Moments(torch, live)
        live._moments.install()


def scheduler(watch: reefwatch.watch) -> Any:
    """The scheduler of a watch that is on. Not public: only the benchmark looks at it."""
    return watch._session._watch._scheduler  # type: ignore[union-attr]


def counts(watch: reefwatch.watch) -> tuple[int, int]:
    """(examined steps of the exam, of the steady state) so far."""
    return scheduler(watch).exam_steps, scheduler(watch).steady_examined


def facts(watch: reefwatch.watch) -> dict[str, Any]:
    """What the watch says of itself, as recorded."""
    record = watch.report.records[0]
    names = ["watch.exam", "watch.budget", "watch.cost", "precision.ops", "run.steps"]
    names += [name for name in record.facts if name.startswith("errored.")]
    return {name: value for name in names if (value := known(record.fact(name))) is not None}


def known(fact: Any) -> Any:
    """The value of an Evidence; None for an Unknown."""
    return getattr(fact, "value", None)


def agreed(mine: bool, plan: Plan) -> bool:
    """True when it is true on every rank, so that all run the same number of steps."""
    if plan.world == 1:
        return mine
    flag = torch.tensor([float(mine)], device=plan.device)
    torch.distributed.all_reduce(flag, op=torch.distributed.ReduceOp.MIN)
    return bool(flag.item())


def measure(name: str, plan: Plan, say: Callable[[str], None]) -> dict[str, Any]:
    """All that is said of one workload."""
    bench = Bench(name, plan)
    bench.block(10)
    before = median(bench.block(5 * SHORT).times)
    rounds = []
    for number in range(plan.rounds):
        with scratch() as folder:
            rounds.append(bench.round(folder))
        last = rounds[-1]
        say(f"{name}: round {number + 1} of {plan.rounds}, ratio {median(last.ratios):.4f}")
    after = median(bench.block(5 * SHORT).times)
    ratios = sorted(ratio for each in rounds for ratio in each.ratios)
    return {
        "about": WORKLOADS[name].about,
        "plain_ms": 1e3 * median(each.plain for each in rounds),
        "ratio": median(ratios),
        "ratio_low": ratios[len(ratios) // 4],
        "ratio_high": ratios[-1 - len(ratios) // 4],
        "ratio_of_sums": sum(each.watched for each in rounds) / sum(each.plain for each in rounds),
        "pairs": len(ratios),
        "ratio_of_medians": median(each.watched_median / each.plain_median for each in rounds),
        "cpu_ratio": median(each.cpu_ratio for each in rounds),
        "exam_step_ratio": median(each.exam_step for each in rounds),
        "exam_overhead_s": max(each.exam_overhead for each in rounds),
        "exam_allowance_s": plan.exam,
        "exam_steps": median(each.exam_steps for each in rounds),
        "examined": sum(each.examined for each in rounds),
        "of": sum(len(each.ratios) for each in rounds) * (SHORT + 1),
        "start_s": median(each.start for each in rounds),
        "stop_s": median(each.stop for each in rounds),
        "after_over_before": after / before,
        "facts": rounds[-1].facts,
        "for_scale": bench.scale(),
        "rounds": [{k: v for k, v in asdict(each).items() if k != "facts"} for each in rounds],
    }


def processes(name: str, plan: Plan, pairs: int, say: Callable[[str], None]) -> dict[str, Any]:
    """The second opinion: whole runs of a script, plain and under `reefwatch run`."""
    script = [str(HERE / "train.py"), "--model", name, "--device", plan.device]
    script += ["--steps", str(2 * plan.steps)]
    steady, whole = [], []
    for number in range(pairs):
        with scratch() as folder:
            watch = ["-m", "reefwatch", "run", "--out", str(folder / "run")]
            watch += ["--claim", "bf16-mixed", "--exam", f"{plan.exam:g}s"]
            order = [[], watch] if number % 2 else [watch, []]
            told = {bool(prefix): timed([sys.executable, *prefix, *script]) for prefix in order}
        whole.append(told[True]["process_s"] / told[False]["process_s"])
        steady.append(told[True]["second_half_s"] / told[False]["second_half_s"])
        say(f"{name}: pair {number + 1} of {pairs}, second half {steady[-1]:.4f}")
    return {
        "pairs": pairs,
        "steps": 2 * plan.steps,
        "whole": median(whole),
        "second_half": median(steady),
    }


def timed(command: list[str]) -> dict[str, float]:
    begun = time.perf_counter()
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begun
    if told.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(command)} ended with {told.returncode}:\n{told.stderr}")
    return {"process_s": seconds, **json.loads(told.stdout.splitlines()[-1])}


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="reefwatch-cost-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def device_name(device: str) -> str:
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(0)
    return "cpu"


def about_machine(plan: Plan) -> dict[str, Any]:
    return {
        "device": device_name(plan.device),
        "gpus": plan.world if plan.device.startswith("cuda") else 0,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "reefwatch": reefwatch.__version__,
        "rounds": plan.rounds,
        "steps": plan.steps,
        "exam_s": plan.exam,
        "budget": plan.budget,
    }


def table(told: dict[str, Any]) -> str:
    """The result as Markdown."""
    machine = told["machine"]
    where = f"{machine['device']}, {machine['threads']} threads, torch {machine['torch']}, "
    where += f"Python {machine['python']}, Reefwatch {machine['reefwatch']}; {machine['rounds']} "
    where += f"rounds of {machine['steps']} plain and {machine['steps']} watched steps."
    lines = [where, ""]
    head = ["model", "plain step", "watched / plain", "middle half", "ratio of sums"]
    head += [
        "in CPU time",
        "examined in the steady state",
        "examined step / plain",
        "exam",
        "modules seen",
    ]
    lines += ["| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
    for name, one in told["models"].items():
        seen = one["facts"].get("precision.ops")
        modules = f"{seen['modules_seen']} of {seen['modules_total']}" if seen else "not said"
        own = one["facts"].get("watch.exam", {}).get("seconds", 0.0)
        row = [
            f"{name}: {one['about']}",
            f"{one['plain_ms']:.1f} ms",
            f"**{one['ratio']:.3f}**",
            f"{one['ratio_low']:.3f} - {one['ratio_high']:.3f} ({one['pairs']} pairs)",
            f"{one['ratio_of_sums']:.3f}",
            f"{one['cpu_ratio']:.3f}",
            f"{one['examined']} of {one['of']} steps",
            f"{one['exam_step_ratio']:.2f}",
            f"{one['exam_overhead_s']:.1f} s (by its own account {own:.1f} s) "
            f"of {one['exam_allowance_s']:g} s, "
            f"{one['exam_steps']:g} steps",
            modules,
        ]
        lines.append("| " + " | ".join(row) + " |")
    lines.append("")
    for name, one in told["models"].items():
        scale = ", ".join(f"{what} {ratio:.2f}" for what, ratio in one["for_scale"].items())
        lines.append(f"- {name}: for scale, {scale}.")
        lines.append(
            f"- {name}: without a watch, after the last over before the first: "
            f"{one['after_over_before']:.2f}."
        )
        pairs = one.get("processes")
        if pairs:
            lines.append(
                f"- {name}: whole processes ({pairs['pairs']} pairs of {pairs['steps']} steps): "
                f"second half of the run {pairs['second_half']:.3f}, "
                f"all of it with exam and report {pairs['whole']:.3f}."
            )
    return "\n".join(lines) + "\n"


def write(told: dict[str, Any], out: Path, world: int) -> None:
    """The files of a device, after each workload: what a cut run has measured is kept."""
    stem = re.sub(r"[^a-z0-9]+", "-", told["machine"]["device"].lower()).strip("-")
    stem += f"-x{world}" if world > 1 else ""
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{stem}-cost.json").write_text(json.dumps(told, indent=1) + "\n")
    (out / f"{stem}-cost.md").write_text(table(told))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--models", nargs="+", choices=list(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, help="of each block; 100 on the CPU, 400 on a GPU")
    parser.add_argument("--exam", type=float, default=20.0, help="seconds")
    parser.add_argument("--budget", type=float, default=0.02, help="share of the steady state")
    parser.add_argument("--threads", type=int, help="of torch on the CPU")
    parser.add_argument(
        "--pairs", type=int, default=2, help="of whole processes; 0 leaves them out"
    )
    parser.add_argument("--out", type=Path, default=HERE / "results")
    return parser.parse_args()


def main() -> None:
    chosen = parse()
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
        os.environ["OMP_NUM_THREADS"] = str(chosen.threads)
    world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    cuda = chosen.device == "cuda"
    device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if cuda else "cpu"
    if cuda:
        torch.cuda.set_device(device)
    if world > 1:
        torch.distributed.init_process_group("nccl" if cuda else "gloo")
    steps = chosen.steps or (400 if cuda else 100)
    plan = Plan(device, chosen.rounds, steps, chosen.exam, chosen.budget, world)
    names = chosen.models or (["resnet50", "llama"] if cuda else ["cnn", "transformer"])

    def say(text: str) -> None:
        if rank == 0:
            print(text, file=sys.stderr, flush=True)

    told: dict[str, Any] = {"machine": about_machine(plan), "models": {}}
    for name in names:
        told["models"][name] = measure(name, plan, say)
        if chosen.pairs and world == 1:
            told["models"][name]["processes"] = processes(name, plan, chosen.pairs, say)
        if rank == 0:
            write(told, chosen.out, world)
    if world > 1:
        torch.distributed.destroy_process_group()
    if rank == 0:
        print(table(told))


if __name__ == "__main__":
    main()
