"""What the guards of a run of several ranks cost: `python benchmarks/dist.py [--device cuda]`.

Two ways. Guards alone: one DDP training, in turn blocks of steps with the instruments of this
contract at their moments and blocks without; the ratio of neighbours. Whole runs: the same program,
DDP and FSDP2, plain and under `reefwatch run` in the order ABBA; the median of its last steps, and
whether the weights and losses are the same to the last bit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BLOCK = 16
PAIRS = 40
WARM = 64
"""Steps that are looked at more often than later ones."""


def place(torch: Any, device: str) -> Any:
    """This rank's device, with its process group made."""
    torch.set_num_threads(1)
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl" if device == "cuda" else "gloo")
    return torch.device(device)


def training(torch: Any, device: Any, wrap: str) -> tuple[Any, Any, Any]:
    """(module, optimizer, one batch) of a stack of residual blocks."""
    nn = torch.nn
    wide, deep, batch = (2048, 16, 8192) if device.type == "cuda" else (256, 8, 256)
    torch.manual_seed(0)
    parts = [nn.Sequential(nn.Linear(wide, wide), nn.GELU()) for _ in range(deep)]
    net = nn.Sequential(*parts).to(device)
    if wrap == "fsdp2":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
        for part in net:
            fully_shard(part, mesh=mesh)
        module = fully_shard(net, mesh=mesh)
    else:
        module = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)
    drawn = torch.Generator().manual_seed(torch.distributed.get_rank())
    return module, optimizer, torch.randn(batch, wide, generator=drawn).to(device)


def guards_alone(device: str) -> None:
    """Rank 0 prints the ratios of blocks as JSON."""
    import torch

    from reefwatch.gather.dist.replicas import Replicas
    from reefwatch.gather.dist.watchdog import Watchdog
    from reefwatch.gather.instrument import Tools

    class Nothing:
        def fact(self, *told: Any, **more: Any) -> None:
            pass

        event = tensor = fact

    where = place(torch, device)
    module, optimizer, x = training(torch, where, "ddp")
    guards = [Replicas(), Watchdog()]
    for guard in guards:
        guard.arm(Tools(torch, Nothing(), time.perf_counter, None, {}))
        guard.on_optimizer(optimizer)
    step = 0

    def block(watched: bool) -> tuple[float, float]:
        nonlocal step
        begun, spent = time.perf_counter(), time.process_time()
        for _ in range(BLOCK):
            optimizer.zero_grad()
            loss = module(x).pow(2).mean()
            for guard in guards if watched else ():
                guard.before_backward(loss)
            loss.backward()
            for guard in guards if watched else ():
                guard.before_update(optimizer, False)
            optimizer.step()
            for guard in guards if watched else ():
                guard.on_step(step, 0.0, False)
            step += watched
        torch.distributed.barrier()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begun, time.process_time() - spent

    for _ in range(WARM // BLOCK):  # the first steps are all looked at: the exam's share
        block(True)
    block(False)
    pairs = []
    for pair in range(PAIRS):
        order = (True, False) if pair % 2 else (False, True)
        told = {watched: block(watched) for watched in order}
        pairs.append([*told[True], *told[False]])
    if torch.distributed.get_rank() == 0:
        low, middle, high = statistics.quantiles([a / b for a, _, b, _ in pairs], n=4)
        sums = [sum(column) for column in zip(*pairs, strict=True)]
        row = {"median": middle, "low": low, "high": high}
        row |= {"sums": sums[0] / sums[2], "cpu": sums[1] / sums[3]}
        print(json.dumps({**row, "step": sums[2] / PAIRS / BLOCK, "steps": PAIRS * BLOCK}))
    torch.distributed.destroy_process_group()


def program(device: str, wrap: str, steps: int) -> None:
    """A training that knows nothing of a watch; rank 0 prints its times as JSON."""
    import torch

    where = place(torch, device)
    module, optimizer, x = training(torch, where, wrap)
    times, last = [], 0.0
    for _ in range(steps):
        begun = time.perf_counter()
        optimizer.zero_grad()
        loss = module(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        last = loss.item()
        times.append(time.perf_counter() - begun)
    made = hashlib.sha256(last.hex().encode())
    for param in module.parameters():
        local = getattr(param, "_local_tensor", param).detach().cpu()
        made.update(local.view(torch.uint8).numpy().tobytes())
    if torch.distributed.get_rank() == 0:
        late = times[len(times) // 2 :]
        row = {"median": statistics.median(late), "mean": statistics.fmean(late)}
        print(json.dumps({**row, "digest": made.hexdigest()}))
    torch.distributed.destroy_process_group()


def launched(ranks: int, *words: str) -> dict[str, Any]:
    """What rank 0 printed last, as JSON."""
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(ranks), *words]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    if told.returncode:
        raise SystemExit(told.stderr[-2000:])
    row: dict[str, Any] = json.loads(told.stdout.strip().splitlines()[-1])
    return row


def whole(given: argparse.Namespace, wrap: str) -> dict[str, Any]:
    """Ratios of whole runs, plain and watched in turn."""
    words = [str(Path(__file__)), "--child", "program", "--wrap", wrap]
    words += ["--device", given.device, "--steps", str(given.steps)]
    rows: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as folder:
        watch = ["-m", "reefwatch", "run", "--exit-code=script", "--exam", given.exam]
        for pair in range(given.pairs):
            for watched in (True, False) if pair % 2 else (False, True):
                before = [*watch, "--out", f"{folder}/{pair}"] if watched else []
                rows[watched].append(launched(given.ranks, *before, *words))
                print(f"{wrap} {'watched' if watched else 'plain'}", file=sys.stderr, flush=True)
    ratios = {
        key: statistics.median(
            a[key] / b[key] for a, b in zip(rows[True], rows[False], strict=True)
        )
        for key in ("median", "mean")
    }
    digests = {row["digest"] for some in rows.values() for row in some}
    plain = [row["median"] for row in rows[False]]
    spread = max(plain) / min(plain) - 1
    return {"wrap": wrap, **ratios, "step": min(plain), "spread": spread, "same": len(digests) == 1}


def table(ranks: int, device: str, alone: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """The page of one device."""
    import torch

    name = torch.cuda.get_device_name(0) + f" x{ranks}, NCCL" if device == "cuda" else "CPU, gloo"
    lines = [
        f"{name}, {os.cpu_count()} threads, torch {torch.__version__}; {ranks} ranks.",
        "",
        f"Guards alone, {alone['steps']} watched steps of {alone['step'] * 1e3:.1f} ms: "
        f"watched / plain {alone['median']:.3f} (middle half {alone['low']:.3f} to "
        f"{alone['high']:.3f}), ratio of sums {alone['sums']:.3f}, in CPU time "
        f"{alone['cpu']:.3f}. The bar is 1.02.",
        "",
        "| whole runs | plain step | watched / plain, median step | mean step "
        "| plain runs among themselves | losses and weights |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {row['wrap']} | {row['step'] * 1e3:.1f} ms | {row['median']:.3f} | {row['mean']:.3f} "
        f"| {row['spread']:.1%} apart | {'the same bits' if row['same'] else 'DIFFER'} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--pairs", type=int, default=3, help="of whole runs")
    parser.add_argument("--steps", type=int, default=0, help="of a whole run")
    parser.add_argument("--exam", default="5s")
    parser.add_argument("--wrap", default="ddp")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--child", default="", choices=["", "guards", "program"])
    given = parser.parse_args()
    given.steps = given.steps or (1000 if given.device == "cuda" else 600)
    if given.child == "guards":
        guards_alone(given.device)
    elif given.child:
        program(given.device, given.wrap, given.steps)
    else:
        alone = launched(given.ranks, str(Path(__file__)), "--child", "guards", "--device",
                         given.device)  # fmt: skip
        rows = [whole(given, wrap) for wrap in ("ddp", "fsdp2")]
        text = table(given.ranks, given.device, alone, rows)
        print(text, end="")
        name = "nvidia-h200-x2-dist" if given.device == "cuda" else "cpu-dist"
        (given.out / f"{name}.md").write_text(text)
        (given.out / f"{name}.json").write_text(json.dumps({"alone": alone, "whole": rows}))
        return 0 if all(row["same"] for row in rows) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
