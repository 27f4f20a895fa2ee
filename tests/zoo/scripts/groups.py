"""It ends in exceptions chained to each other, with a thread at work and handlers that fail."""

import atexit
import threading

import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def last():
    print("the last handler", flush=True)


def later():
    threading.main_thread().join()
    print("the thread has ended", flush=True)


def fails():
    raise RuntimeError("in a thread")


def step(number):
    optimizer.zero_grad()
    loss = model(torch.randn(2, 4)).square().sum()
    if number == 11:
        try:
            model(torch.ones(2, 5))
        except RuntimeError as error:
            raise LookupError("a wrong shape") from error
    loss.backward()
    optimizer.step()
    print(loss.item().hex(), flush=True)


atexit.register(last)
for target in (later, fails):
    thread = threading.Thread(target=target, name=target.__name__)
    thread.start()
thread.join()
for number in range(20):
    step(number)
