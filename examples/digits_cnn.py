"""Train a small CNN on scikit-learn's handwritten digits, in bf16 mixed precision.

Plain PyTorch. The 1797 images come with scikit-learn; nothing is downloaded.
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(images)))


class DigitsCNN(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.stem = Block(1, width)
        self.body = nn.Sequential(
            Block(width, 2 * width), nn.MaxPool2d(2), Block(2 * width, 2 * width)
        )
        self.head = nn.Linear(2 * width * 4 * 4, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.stem(images)).flatten(1))


def digits() -> tuple[DataLoader, DataLoader]:
    """Batches of (images, labels) for training and for validation."""
    raw = load_digits()
    images = torch.tensor(raw.images, dtype=torch.float32)[:, None] / 16.0
    train, held_out = random_split(TensorDataset(images, torch.tensor(raw.target)), [0.8, 0.2])
    return DataLoader(train, batch_size=96, shuffle=True), DataLoader(held_out, batch_size=256)


def train(
    model: nn.Module, batches: DataLoader, optimizer: torch.optim.Optimizer, device: str
) -> float:
    """One epoch; the mean loss."""
    model.train()
    losses = []
    for images, labels in batches:
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16):
            logits = model(images.to(device))
            loss = nn.functional.cross_entropy(logits, labels.to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).mean().item()


@torch.no_grad()
def validate(model: nn.Module, batches: DataLoader, device: str) -> float:
    """The share of digits that are read right."""
    model.eval()
    right = total = 0
    for images, labels in batches:
        with torch.autocast(device, dtype=torch.bfloat16):
            guessed = model(images.to(device)).argmax(1).cpu()
        right += int((guessed == labels).sum())
        total += len(labels)
    return right / total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    chosen = parser.parse_args()

    torch.manual_seed(0)
    train_batches, held_out_batches = digits()
    model = DigitsCNN().to(chosen.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(chosen.epochs):
        loss = train(model, train_batches, optimizer, chosen.device)
        accuracy = validate(model, held_out_batches, chosen.device)
        print(f"epoch {epoch}  loss {loss:.4f}  validation accuracy {accuracy:.1%}")


if __name__ == "__main__":
    main()
