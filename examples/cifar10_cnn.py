"""Train a small residual CNN on CIFAR-10, in bf16 mixed precision.

Plain PyTorch and torchvision. `--data DIR` names the folder that holds cifar-10-batches-py;
nothing is downloaded unless `--download` is given.
"""

import argparse
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first_norm(self.first(images)))
        return torch.relu(self.second_norm(self.second(hidden)) + self.shortcut(images))


def cifar_cnn(width: int = 64) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        Residual(width, width, 1),
        Residual(width, 2 * width, 2),
        Residual(2 * width, 4 * width, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, 10),
    )


def cifar10(folder: str, download: bool, batch: int, workers: int) -> tuple[DataLoader, DataLoader]:
    """Batches of (images, labels) for training and for validation.

    Exits with 2 and one line when torchvision or the data are not there.
    """
    try:
        from torchvision import datasets, transforms
    except ImportError:
        stop("torchvision is not installed")
    normal = transforms.Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
    plain = transforms.Compose([transforms.ToTensor(), normal])
    varied = transforms.Compose(
        [transforms.RandomCrop(32, 4), transforms.RandomHorizontalFlip(), plain]
    )
    try:
        train = datasets.CIFAR10(folder, train=True, transform=varied, download=download)
        held_out = datasets.CIFAR10(folder, train=False, transform=plain)
    except RuntimeError:
        stop(f"no CIFAR-10 in {folder}: --data names the folder, --download fetches it")
    return (
        DataLoader(train, batch, shuffle=True, num_workers=workers, drop_last=True),
        DataLoader(held_out, 512, num_workers=workers),
    )


def stop(why: str) -> None:
    print(f"cifar10_cnn: {why}", file=sys.stderr)
    sys.exit(2)


def train(
    model: nn.Module, batches: DataLoader, optimizer, schedule, device: str, most: int
) -> float:
    """One epoch, `most` steps at most; the mean loss."""
    model.train()
    losses = []
    for number, (images, labels) in enumerate(batches):
        if number == most:
            break
        images = images.to(device, memory_format=torch.channels_last, non_blocking=True)
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(images), labels.to(device))
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.detach())
    return torch.stack(losses).mean().item()


@torch.no_grad()
def validate(model: nn.Module, batches: DataLoader, device: str) -> float:
    """The share of pictures that are named right."""
    model.eval()
    right = total = 0
    for images, labels in batches:
        images = images.to(device, memory_format=torch.channels_last)
        with torch.autocast(device, dtype=torch.bfloat16):
            right += int((model(images).argmax(1).cpu() == labels).sum())
        total += len(labels)
    return right / total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="data", help="folder of cifar-10-batches-py")
    parser.add_argument("--download", action="store_true", help="fetch the data into --data")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=-1, help="steps per epoch at most")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    chosen = parser.parse_args()

    torch.manual_seed(0)
    train_batches, held_out_batches = cifar10(
        chosen.data, chosen.download, chosen.batch, chosen.workers
    )
    model = cifar_cnn().to(chosen.device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    per_epoch = len(train_batches) if chosen.steps < 0 else min(chosen.steps, len(train_batches))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 0.2, total_steps=chosen.epochs * per_epoch
    )
    for epoch in range(chosen.epochs):
        begun = time.perf_counter()
        loss = train(model, train_batches, optimizer, schedule, chosen.device, chosen.steps)
        accuracy = validate(model, held_out_batches, chosen.device)
        seconds = time.perf_counter() - begun
        print(f"epoch {epoch}  loss {loss:.4f}  accuracy {accuracy:.1%}  {seconds:.0f} s")


if __name__ == "__main__":
    main()
