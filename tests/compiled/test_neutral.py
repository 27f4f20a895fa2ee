"""A run under the guard is the run without it, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.serial
SCRIPT = """
import hashlib, random, torch
from torch import nn

torch.manual_seed(0)
random.seed(0)
net = nn.Sequential(
    nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.2), nn.Flatten(),
    nn.Linear(144, 5),
)
fast = torch.compile(net, backend="aot_eager")
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
calls = []

@torch.compile(backend="aot_eager")
def loss_of(out, y, log):
    log.append(len(log))
    print("loss", len(log))
    return nn.functional.cross_entropy(out * random.random(), y)

net.register_forward_hook(lambda m, i, o: calls.append(tuple(o.shape)))
for step in range(8):
    x, y = torch.randn(6, 1, 8, 8), torch.randint(0, 5, (6,))
    loss = loss_of(fast(x), y, calls)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item().hex())
net.eval()
with torch.no_grad():
    print(fast(torch.randn(3, 1, 8, 8)).sum().item().hex())
state = b"".join(v.contiguous().numpy().tobytes() for v in net.state_dict().values())
state += torch.get_rng_state().numpy().tobytes()
print(hashlib.sha256(state).hexdigest(), random.random(), len(calls))
print(sorted(torch._dynamo.utils.counters["frames"].items()))
try:
    fast(torch.randn(2, 3, 8, 8))
except Exception as error:
    import traceback
    print("".join(traceback.format_exception(error)))
"""


def run(path: Path, *before: str) -> str:
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *before, str(path)],
        capture_output=True,
        text=True,
        env=environ,
        cwd=path.parent,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.stdout


def test_losses_weights_random_state_and_tracebacks(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    plain = run(path)
    under = run(
        path, "-m", "reefwatch", "run", "--quiet", "--locate", "0s", "--out", str(tmp_path / "r")
    )
    assert under == plain
