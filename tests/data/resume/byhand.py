"""No loader, no scheduler object: a rate by hand, a permutation of one's own; saves at its end."""

import argparse
import math

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--until", type=int, default=20)
parser.add_argument("--resume", default="")
parser.add_argument("--leave", default="", help="what is not restored")
given = parser.parse_args()

torch.manual_seed(1)
words = torch.randint(0, 32, (40, 13))
model = nn.ModuleDict(
    {
        "words": nn.Embedding(32, 16),
        "block": nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True),
        "head": nn.Linear(16, 32),
    }
)
optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
order = torch.Generator().manual_seed(5)
update = 0
waiting = []
if given.resume:
    kept = torch.load(given.resume, weights_only=False)
    if given.leave != "model":
        model.load_state_dict(kept["model"])
    if given.leave != "optimizer":
        optimizer.load_state_dict(kept["optimizer"])
    if given.leave != "sampler":
        order.set_state(kept["order"])
        waiting = kept["waiting"]
    if given.leave != "random":
        torch.set_rng_state(kept["random"])
    if given.leave != "scheduler":
        update = kept["update"]
    given.until -= kept["update"] - update

while update < given.until:
    if not waiting:
        waiting = torch.randperm(len(words), generator=order).tolist()
    rows, waiting = waiting[:8], waiting[8:]
    for group in optimizer.param_groups:
        group["lr"] = 3e-3 * min(1, (update + 1) / 6) * (0.5 + 0.5 * math.cos(update / 40))
    batch = words[rows]
    hidden = model["block"](model["words"](batch[:, :-1]))
    loss = nn.functional.cross_entropy(model["head"](hidden).flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    update += 1

torch.save(
    {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "order": order.get_state(),
        "waiting": waiting,
        "random": torch.get_rng_state(),
        "update": update,
    },
    "model.pt",
)
