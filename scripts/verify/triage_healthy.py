# ruff: noqa: E501 - the lines are those of the libraries
"""Ten training runs that end well and print what looks bad: real outputs for the bars of triage.

Each case is run in a process of its own, stdout and stderr together. Warnings of torch and of Python are
real; what only a ROCm machine would print is printed by the script, in the words of the libraries.

    python scripts/verify/triage_healthy.py --write DIR
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_TRAIN = """
import logging, sys, time, warnings
import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 1))
optimizer = torch.optim.SGD(net.parameters(), 0.05)
def step():
    x = torch.randn(64, 8)
    loss = ((net(x) - x.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
def train(epochs=4, steps=20, say=print):
    for epoch in range(epochs):
        for _ in range(steps):
            loss = step()
        say(f"epoch {epoch + 1}/{epochs} loss {loss:.4f} val_error {loss / 3:.4f}")
"""
CASES = {
    "schedule-order": """
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
scheduler.step()
train()
print("training finished")
""",
    "rocm-noise": """
print("/opt/amdgpu/share/libdrm/amdgpu.ids: No such file or directory", file=sys.stderr)
print("UserWarning: Attempting to use hipBLASLt on an unsupported architecture! Overriding blas backend to hipblas "
      "(Triggered internally at ../aten/src/ATen/Context.cpp:296.)", file=sys.stderr)
for size in (25657344, 59867136):
    print(f"MIOpen(HIP): Warning [IsEnoughWorkspace] [EvaluateInvokers] Solver <GemmFwdRest>, workspace required: "
          f"{size}, provided ptr: 0 size: 0", file=sys.stderr)
warnings.warn("Can't initialize amdsmi - Error code: 34")
warnings.warn("1Torch was not compiled with flash attention. (Triggered internally at sdp_utils.cpp:253.)")
train()
torch.save(net.state_dict(), "model.pt")
print("saved checkpoint model.pt")
""",
    "progress-bar": """
for number in range(200):
    loss = step()
    done = number / 2
    print(f"\\r{done:3.0f}%|{'#' * (number // 10):<20}| {number}/200 [00:01<00:01, 99.9it/s, loss={loss:.3f}]", end="", file=sys.stderr)
    if number == 50:
        warnings.warn("failed to prefetch a batch, retrying")
print("\\r100%|####################| 200/200 [00:02<00:00, 99.8it/s]", file=sys.stderr)
print("done")
""",
    "handled-exception": """
logging.basicConfig(level=logging.INFO, format="%(asctime)s - %(name)s - %(levelname)s - %(message)s")
try:
    import flash_attn_that_is_not_there
except ImportError:
    logging.exception("flash attention is not available, falling back to SDPA")
train(say=logging.info)
logging.info("training complete")
""",
    "no-cuda": """
scaler = torch.amp.GradScaler("cuda")
with torch.autocast("cuda", torch.float16):
    loss = step()
loader = torch.utils.data.DataLoader([1.0, 2.0], pin_memory=True)
print(list(loader))
train()
print("Training finished: best val_error 0.0123, 0 errors, 3 failed downloads were retried")
""",
    "two-ranks": """
import os
import torch.distributed as dist
import torch.multiprocessing as mp
def work(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="2")
    print(f'[rank{rank}]: node1:1263985:1263985 [{rank}] init.cc:122 NCCL WARN Missing "iommu=pt" from kernel command line '
          "which can lead to system instablity or hang!", file=sys.stderr, flush=True)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    for number in range(5):
        loss = torch.tensor(step())
        dist.all_reduce(loss)
        print(f"[rank{rank}]: step {number} loss {loss.item() / 2:.4f}", flush=True)
    if rank == 0:
        print("[rank0]: saved checkpoint step 5", flush=True)
    dist.barrier()
    dist.destroy_process_group()
if __name__ == "__main__":
    import socket
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(work, (port,), nprocs=2)
    print("train finished")
""",
    "exception-in-del": """
class Cache:
    def __del__(self):
        raise OSError("cannot remove the cache folder")
cache = Cache()
train(epochs=2)
del cache
train(epochs=2)
print("run finished")
""",
    "anomalies": """
warnings.warn("resource_tracker: There appear to be 4 leaked semaphore objects to clean up at shutdown")
print("WARNING: skipped 2 corrupt samples: error while decoding image 17.jpg", file=sys.stderr)
with torch.autograd.set_detect_anomaly(True):
    train()
x = torch.tensor([1.0, 2.0], requires_grad=True)
(x * 2).sum().backward(retain_graph=True)
print("epoch 4/4 done, nan_batches 0, timeout_errors 0")
""",
    "legacy-calls": """
a = torch.ones(2, 3)
print(torch.testing.assert_close(a, a))
torch.save({"a": a}, "a.pt")
print(torch.load("a.pt", weights_only=False))
nn.utils.clip_grad_norm_(net.parameters(), 1.0)
print(torch.range(0, 2))
train()
torch.jit.script(nn.Linear(2, 2))
print("model saved to a.pt")
""",
    "miopen-search": """
print("MIOpen(HIP): Warning [SearchImpl] Searching the best solution in the 9 dim space. Please, be patient...", file=sys.stderr)
print("MIOpen(HIP): Warning [SQLiteBase] Missing system database file: gfx1030_40.kdb Performance may degrade.", file=sys.stderr)
print("bitsandbytes: The installed version of bitsandbytes was compiled without GPU support. 8-bit optimizers are unavailable.", file=sys.stderr)
print("[W1016 17:27:46.690175963 ProcessGroupNCCL.cpp:1538] Warning: WARNING: destroy_process_group() was not called before program exit", file=sys.stderr)
train(epochs=6)
print("`Trainer.fit` stopped: `max_epochs=6` reached.")
""",
}


def output(name: str) -> str:
    """What the case prints. Raises CalledProcessError when it does not end well."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(_TRAIN + CASES[name])
        environ = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        done = subprocess.run(
            [sys.executable, "train.py"], cwd=folder, env=environ, check=True, timeout=300,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        text = done.stdout.decode().replace(folder, "/home/user/project")
        return text.replace(sys.prefix, "/home/user/venv")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--write", metavar="DIR", required=True)
    folder = Path(options.parse_args().write)
    folder.mkdir(parents=True, exist_ok=True)
    for name in CASES:
        (folder / f"{name}.log").write_bytes(output(name).encode())
        print(f"{name}: written", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
