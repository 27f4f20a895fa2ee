"""A program that replaces stdout, hooks, handlers, clocks, the environment, and then fails."""

import builtins
import io
import os
import signal
import sys
import time

import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
real = sys.stdout


class Loud(io.TextIOBase):
    def write(self, text):
        return real.write(text.upper())

    def flush(self):
        real.flush()


def refuse(*args, **kwargs):
    raise PermissionError("not here")


sys.stdout = Loud()
sys.excepthook = lambda kind, *rest: os.write(2, b"my hook: %s\n" % kind.__name__.encode())
signal.signal(signal.SIGTERM, lambda *args: print("a signal"))
os.kill(os.getpid(), signal.SIGTERM)
os.environ.clear()
builtins.open = refuse
os.getcwd = lambda: "/nowhere"
time.time = time.perf_counter = time.monotonic = lambda: 0
for _ in range(14):
    optimizer.zero_grad()
    loss = model(torch.randn(2, 4)).sum()
    loss.backward()
    optimizer.step()
print("loss", loss.item().hex(), flush=True)
builtins.print = None
sys.path[:] = []
raise ValueError("theirs")
