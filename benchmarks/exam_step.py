"""What an examined step costs against a plain one, and how much it saw.

Both kinds of step alternate in one process; the ratio is of their medians of CPU time of the
thread, so that other work on the machine counts as little as can be.

    python benchmarks/exam_step.py [--rounds 15] [--empty]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from reefwatch.core.fact import Evidence
from reefwatch.gather.instrument import Tools
from reefwatch.gather.ops import OpLayer
from reefwatch.gather.precision.audit import PrecisionAudit


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(x + self.norm2(self.conv2(y)))


class ConvNet(nn.Module):
    def __init__(self, width: int = 32, depth: int = 4) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(depth)))
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (
            nn.Linear(width, inner, bias=False),
            nn.Linear(width, inner, bias=False),
        )
        self.down = nn.Linear(inner, width, bias=False)

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        half = x.shape[-1] // 2
        place = torch.arange(x.shape[-2])[:, None] / 10000 ** (torch.arange(half) / half)
        cos, sin = place.cos().repeat(1, 2), place.sin().repeat(1, 2)
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        y = self.norm1(x)
        q, k, v = (
            part(y).view(batch, length, self.heads, -1).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        q, k = self.rotate(q), self.rotate(k)
        mixed = F.scaled_dot_product_attention(q, k, v.to(q.dtype), is_causal=True)
        x = x + self.o(mixed.transpose(1, 2).reshape(batch, length, width))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, width: int = 128, depth: int = 4, words: int = 512) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Layer(width, 4, 344) for _ in range(depth))
        self.norm = RMSNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.words(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Empty(TorchDispatchMode):
    """The floor: a mode that does nothing."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Silent:
    """A sink that keeps facts and counts rows."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.rows = 0

    def fact(self, name: str, fact: Any) -> None:
        self.facts[name] = fact

    def event(self, kind: str, data: Any, *, step: Any = None, id: Any = None) -> None:
        self.rows += 1

    def tensor(self, *parts: Any) -> None: ...


def make(kind: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    if kind == "cnn":
        return ConvNet(), torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
    words = torch.randint(0, 512, (4, 128))
    return Llama(), words, words


def stepper(kind: str) -> tuple[Callable[[], None], torch.optim.Optimizer]:
    net, x, y = make(kind)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            out = net(x)
            loss = F.cross_entropy(out.flatten(0, -2), y.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step, optimizer


def timed(step: Callable[[], None]) -> float:
    began = time.thread_time()
    step()
    return time.thread_time() - began


def measure(kind: str, rounds: int, floor: bool) -> dict[str, Any]:
    """Medians of plain and examined steps in seconds, and what the last exam covered."""
    step, optimizer = stepper(kind)
    sink = Silent()
    tools = Tools(torch, sink, time.perf_counter, None, {"claim": "bf16-mixed"})
    audit = PrecisionAudit()
    audit.arm(tools)
    audit.on_optimizer(optimizer)
    layer = OpLayer(tools, [audit])

    def examined() -> None:
        audit.open(0)
        layer.enter(0)
        try:
            step()
        finally:
            layer.leave()
            audit.close(0)

    def bare() -> None:
        with Empty():
            step()

    kinds = {"plain": step, "examined": examined} | ({"empty": bare} if floor else {})
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for n in range(rounds + 2):
        for name, run in kinds.items():
            took = timed(run)
            if n >= 2:
                times[name].append(took)
    first = timed(examined)
    ops = layer.ops // (rounds + 3)
    audit.after_update(optimizer, True)
    audit.disarm()
    fact = sink.facts["precision.ops"]
    assert isinstance(fact, Evidence)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    return {"medians": medians, "times": times, "ops": ops, "coverage": fact.value, "last": first}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--empty", action="store_true", help="measure an empty mode beside it")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for kind in ("cnn", "transformer"):
        told = measure(kind, asked.rounds, asked.empty)
        plain = told["medians"]["plain"]
        seen = told["coverage"]
        for name, median in told["medians"].items():
            least = min(told["times"][name]) / min(told["times"]["plain"])
            print(
                f"{kind:12s} {name:9s} {median * 1e3:7.2f} ms  x{median / plain:.2f} of plain"
                f" (minima x{least:.2f})"
            )
        print(
            f"{kind:12s} coverage: {told['ops']} ops a step, modules with weights"
            f" {seen['modules_seen']} of {seen['modules_total']},"
            f" unseen: {seen['unseen'] or 'nothing'}"
        )


if __name__ == "__main__":
    main()
