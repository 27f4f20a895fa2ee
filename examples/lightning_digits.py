"""Train a small CNN on scikit-learn's digits with Lightning, guarded: one line is Reefwatch's."""

import argparse
import logging

import lightning.pytorch as pl
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from reefwatch.lightning import Guard


class DigitsCNN(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * 4 * 4, 10),
        )

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], number: int) -> torch.Tensor:
        images, labels = batch
        loss = nn.functional.cross_entropy(self.layers(images), labels)
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=2e-3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--precision", default="bf16-mixed")
    parser.add_argument("--out", default="lightning-digits")
    args = parser.parse_args()
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)

    pl.seed_everything(0)
    raw = load_digits()
    images = torch.tensor(raw.images, dtype=torch.float32)[:, None] / 16.0
    batches = DataLoader(TensorDataset(images, torch.tensor(raw.target)), 96, shuffle=True)
    trainer = pl.Trainer(
        max_epochs=args.epochs,
        precision=args.precision,
        gradient_clip_val=1.0,
        callbacks=[Guard()],
        logger=pl.loggers.CSVLogger(args.out),
        log_every_n_steps=5,
        enable_model_summary=False,
    )
    trainer.fit(DigitsCNN(), batches)


if __name__ == "__main__":
    main()
