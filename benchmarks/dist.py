"""What the guards of a run of several ranks cost: `python benchmarks/dist.py [--ranks 2]`.

One DDP training (gloo, CPU). In turn, blocks of steps with the instruments of this
contract at their moments and blocks without: the ratio of neighbours, its median and middle half.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

BLOCK = 8
PAIRS = 40


def child() -> None:
    import torch
    import torch.distributed as dist
    from torch import nn

    from reefwatch.gather.dist.replicas import Replicas
    from reefwatch.gather.dist.watchdog import Watchdog
    from reefwatch.gather.instrument import Tools

    class Nothing:
        def fact(self, *told, **more):
            pass

        event = tensor = fact

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = nn.Sequential(*[nn.Sequential(nn.Linear(256, 256), nn.GELU()) for _ in range(8)])
    module = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)
    guards = [Replicas(), Watchdog()]
    for guard in guards:
        guard.arm(Tools(torch, Nothing(), time.perf_counter, None, {}))
        guard.on_optimizer(optimizer)
    x = torch.randn(256, 256)
    step = 0

    def block(watched: bool) -> float:
        nonlocal step
        begun = time.perf_counter()
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
                step += 1 if guard is guards[-1] else 0
        dist.barrier()
        return time.perf_counter() - begun

    for _ in range(4):  # the first 16 steps are all looked at: the exam's share
        block(True)
    block(False)
    ratios, sums = [], [0.0, 0.0]
    for pair in range(PAIRS):
        order = (True, False) if pair % 2 else (False, True)
        told = {watched: block(watched) for watched in order}
        ratios.append(told[True] / told[False])
        sums[0] += told[True]
        sums[1] += told[False]
    if dist.get_rank() == 0:
        low, middle, high = statistics.quantiles(ratios, n=4)
        row = {"median": middle, "low": low, "high": high, "sums": sums[0] / sums[1]}
        print(json.dumps({**row, "step": sums[1] / PAIRS / BLOCK, "steps": PAIRS * BLOCK}))
    dist.destroy_process_group()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--child", action="store_true")
    given = parser.parse_args()
    if given.child:
        child()
        return 0
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(given.ranks), str(Path(__file__)), "--child"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    row = json.loads(told.strip().splitlines()[-1])
    print(
        f"{given.ranks} ranks, {row['steps']} watched steps of {row['step'] * 1e3:.1f} ms: "
        f"watched / plain {row['median']:.3f} (middle half {row['low']:.3f} to "
        f"{row['high']:.3f}), ratio of sums {row['sums']:.3f}; bar 1.02"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
