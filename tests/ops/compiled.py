"""One training run of a compiled model, watched or not; prints what must not change.

usage: compiled.py BACKEND outside|inside|break 0|1 (watched)
"""

import json
import sys
import time
import warnings

import torch
from torch import nn
from torch.nn import functional as F

warnings.simplefilter("ignore")
torch.set_num_threads(1)
backend, where, watched = sys.argv[1], sys.argv[2], sys.argv[3] == "1"
runs = [0]


def counting(graph, inputs):
    def call(*args):
        runs[0] += 1
        return graph.forward(*args)

    return call


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.norm, self.two = nn.Linear(16, 16), nn.LayerNorm(16), nn.Linear(16, 16)

    def forward(self, x):
        if where == "inside":
            with torch.autocast("cpu", torch.bfloat16):
                return self.two(F.gelu(self.norm(self.one(x))))
        x = self.norm(self.one(x))
        if where == "break":
            torch._dynamo.graph_break()
        return self.two(F.gelu(x))


torch.manual_seed(0)
net = Net()
fast = torch.compile(net, backend=counting if backend == "counting" else backend)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
x = torch.randn(8, 16)
unseen = rows = None
if watched:
    from reefwatch.gather.instrument import Tools
    from reefwatch.gather.ops import OpLayer
    from reefwatch.gather.precision.audit import PrecisionAudit
    from reefwatch.gather.precision.examine import Memory

    memory = Memory()
    tools = Tools(torch, memory, time.perf_counter, None, {"claim": "bf16-mixed"})
    audit = PrecisionAudit()
    audit.arm(tools)
    layer = OpLayer(tools, [audit])
losses, per_step = [], []
for number in range(6):
    exam = watched and number in (0, 2, 3)
    before = runs[0]
    if exam:
        audit.open(number)
        layer.enter(number)
    with torch.autocast("cpu", torch.bfloat16, enabled=where != "inside"):
        loss = fast(x).float().pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if exam:
        layer.leave()
        audit.close(number)
    losses.append(loss.item().hex())
    per_step.append(runs[0] - before)
counters = torch._dynamo.utils.counters
kept = {
    "losses": losses,
    "weights": [p.detach().numpy().tobytes().hex() for p in net.parameters()],
    "runs": per_step,
    "graphs": counters["stats"].get("unique_graphs"),
    "frames": dict(counters["frames"]),
    "breaks": sum(counters["graph_break"].values()),
}
if watched:
    audit.disarm()
    unseen = memory.facts["precision.ops"].value["unseen"]
    failed = [name for name in memory.facts if name.startswith("errored")]
    files = sorted({e.data["file"] for e in memory.events if e.kind == "precision.op"})
    print(json.dumps({"unseen": unseen, "failed": failed, "files": files}), file=sys.stderr)
print(json.dumps(kept))
