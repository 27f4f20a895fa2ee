"""Saves in the middle of an epoch, in several files; its own generator, numpy noise, an average."""

import argparse
import random
from pathlib import Path

import numpy as np
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--updates", type=int, default=24)
parser.add_argument("--every", type=int, default=5)
parser.add_argument("--resume", type=Path)
parser.add_argument("--leave", default="", help="what is not restored")
given = parser.parse_args()
HERE = Path(__file__).parent / "checkpoints"


class Noisy(torch.utils.data.Dataset):
    """Images with noise and flips, as augmentation makes them."""

    def __init__(self):
        self.images = np.random.default_rng(1).normal(size=(48, 3, 8, 8)).astype(np.float32)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, at):
        image = self.images[at] + np.random.normal(0, 0.1, size=(3, 8, 8)).astype(np.float32)
        if random.random() < 0.5:
            image = image[:, :, ::-1].copy()
        return torch.from_numpy(image), at % 4


def seed():
    random.seed(3)
    np.random.seed(3)
    torch.manual_seed(3)


seed()
model = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(512, 4)
)
average = torch.optim.swa_utils.AveragedModel(
    model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
)
optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=1e-4)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=40)
generator = torch.Generator().manual_seed(7)
loader = torch.utils.data.DataLoader(Noisy(), batch_size=6, shuffle=True, generator=generator)
done = 0
order = generator.get_state()
kept = {}
if given.resume:
    kept = {
        name: torch.load(given.resume / f"{name}.pt", weights_only=False)
        for name in ("model", "optimizer", "rest")
    }
    if given.leave != "model":
        model.load_state_dict(kept["model"]["model"])
    if given.leave != "average":
        average.load_state_dict(kept["model"]["average"])
    if given.leave != "optimizer":
        optimizer.load_state_dict(kept["optimizer"])
    if given.leave != "scheduler":
        scheduler.load_state_dict(kept["rest"]["scheduler"])
    done = kept["rest"]["done"]
    if given.leave != "sampler":
        generator.set_state(kept["rest"]["order"])

while done < given.updates:
    order = generator.get_state()
    batches = loader.__iter__()
    if kept and given.leave != "sampler":  # what was seen of this epoch is passed over
        for _ in range(kept["rest"]["within"]):
            next(batches)
    if kept and given.leave != "random":
        random.setstate(kept["rest"]["random"][0])
        np.random.set_state(kept["rest"]["random"][1])
        torch.set_rng_state(kept["rest"]["random"][2])
    within = kept["rest"]["within"] if kept else 0
    kept = {}
    for x, y in batches:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        average.update_parameters(model)
        done += 1
        within += 1
        if done % given.every == 0:
            place = HERE / f"{done:04}"
            place.mkdir(parents=True, exist_ok=True)
            states = (random.getstate(), np.random.get_state(), torch.get_rng_state())
            both = {"model": model.state_dict(), "average": average.state_dict()}
            torch.save(both, place / "model.pt")
            torch.save(optimizer.state_dict(), place / "optimizer.pt")
            rest = {"scheduler": scheduler.state_dict(), "done": done, "within": within}
            torch.save({**rest, "order": order, "random": states}, place / "rest.pt")
        if done >= given.updates:
            break
