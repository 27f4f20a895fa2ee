"""A whole run of one of the measured models: plain PyTorch, prints its times as JSON."""

import argparse
import json
import time

import torch
from models import WORKLOADS, Training


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="cnn", choices=list(WORKLOADS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=200)
    chosen = parser.parse_args()

    training = Training(WORKLOADS[chosen.model], chosen.device)
    halves = []
    for _ in range(2):
        begun = time.perf_counter()
        for _ in range(chosen.steps // 2):
            training.step()
        if chosen.device.startswith("cuda"):
            torch.cuda.synchronize()
        halves.append(time.perf_counter() - begun)
    print(json.dumps({"first_half_s": halves[0], "second_half_s": halves[1]}))


if __name__ == "__main__":
    main()
