"""What one telemetry sample costs, as a ratio to a training step.

    python benchmarks/telemetry.py

Measures each reader that this machine has: the processor's, that of the GPU that torch computes on,
and amdgpu's sysfs reader over a captured tree (plain files, so a lower bound of what sysfs costs).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from reefwatch.core.fact import Unknown
from reefwatch.gather.host import LiveHost, ReplayedHost
from reefwatch.gather.perf.amdgpu import AmdgpuReader
from reefwatch.gather.perf.cards import TorchDevice, drm_cards, find_card, torch_device
from reefwatch.gather.perf.cpu import CpuReader
from reefwatch.gather.perf.nvml import open_nvml
from reefwatch.gather.perf.reader import Reader
from reefwatch.gather.perf.telemetry import COST_SHARE, INTERVAL

_CAPTURED = Path(__file__).parents[1] / "tests" / "data" / "sysfs" / "rx6900xt"
_ROUNDS = 200


def median_seconds(work: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def step_on(device: str) -> Callable[[], None]:
    """One step of a small CNN, batch 32."""
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 64, 3, padding=1, stride=2),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(64 * 16 * 16, 10),
    ).to(device)
    optimizer = torch.optim.AdamW(net.parameters())
    images = torch.randn(32, 3, 32, 32, device=device)
    labels = torch.randint(0, 10, (32,), device=device)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(images), labels).backward()
        optimizer.step()
        if device != "cpu":
            torch.cuda.synchronize()

    return step


def readers() -> dict[str, Reader | Unknown]:
    host = LiveHost()
    found: dict[str, Reader | Unknown] = {"cpu": CpuReader(host)}
    device = torch_device(torch)
    if not isinstance(device, TorchDevice):
        found["gpu"] = device
    elif device.hip:
        card = find_card(host, device, host.environ)
        found["gpu"] = card if isinstance(card, Unknown) else AmdgpuReader(host, card, device.name)
    else:
        import pynvml

        found["gpu"] = open_nvml(pynvml, device, host.environ)
    captured = ReplayedHost(_CAPTURED)
    found["amdgpu, captured"] = AmdgpuReader(captured, drm_cards(captured)[0])
    return found


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    step = step_on(device)
    median_seconds(step, 10)
    seconds = median_seconds(step, 50)
    name = torch.cuda.get_device_name() if device == "cuda" else CpuReader(LiveHost()).name
    print(f"step of a small CNN on {name}: {seconds * 1e3:.2f} ms, torch {torch.__version__}")
    for word, reader in readers().items():
        if isinstance(reader, Unknown):
            print(f"{word:18} not measured: {reader.reason}")
            continue
        cost = median_seconds(reader.sample, _ROUNDS)
        interval = max(INTERVAL, cost / COST_SHARE)
        print(
            f"{word:18} {cost * 1e6:8.0f} us a sample = {cost / seconds:.4f} of a step; "
            f"one every {interval:.1f} s = {cost / interval:.4%} of the time ({reader.name})"
        )
        reader.close()


if __name__ == "__main__":
    main()
