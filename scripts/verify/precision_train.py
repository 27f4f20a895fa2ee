"""A plain training loop over one of the real models, for `reefwatch precision` to run.

reefwatch precision scripts/verify/precision_train.py --model LLaMA --device cuda --full
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

from precision_real import REAL


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="LLaMA", help="a word of its name")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--steps", type=int, default=400)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    name = next(name for name in REAL if asked.model in name)
    net, inputs, loss_of = REAL[name](asked.full)
    net = net.to(asked.device).train()
    inputs = [x.to(asked.device) for x in inputs]
    optimizer = torch.optim.AdamW(net.parameters(), 1e-4)
    for _ in range(asked.steps):
        optimizer.zero_grad()
        with torch.autocast(asked.device, torch.bfloat16):
            loss = loss_of(net(*inputs))
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
