"""Ten small models for the injected faults: each a function that gives (callable, inputs)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, size: int = 24) -> None:
        super().__init__()
        self.qkv = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        weights = torch.softmax(q @ k.transpose(-1, -2) * 0.204, -1)
        return self.out(weights @ v)


class Gated(nn.Module):
    def __init__(self, size: int = 20) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.rand(size) + 0.5)
        self.up, self.gate = nn.Linear(size, 32), nn.Linear(size, 32)
        self.down = nn.Linear(32, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-3) * self.gain
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(30, 12)
        self.norm = nn.LayerNorm(12)
        self.head = nn.Linear(12, 5)

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.table(words)) * mask.unsqueeze(-1)
        return self.head(torch.tanh(x.sum(1) / mask.sum(1, keepdim=True)))


class Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 30), nn.Linear(10, 30)

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        for t in range(3):
            r, z, n = (self.a(x[:, t]) + self.b(h)).chunk(3, -1)
            z = torch.sigmoid(z)
            h = (1 - z) * torch.tanh(torch.sigmoid(r) * n) + z * h
        return h


def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits / 1.7, labels) + 0.01 * logits.square().mean()


def distances(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    d = (a.unsqueeze(1) - b.unsqueeze(0)).pow(2).sum(-1)
    return torch.where(d < 4.0, torch.exp(-0.5 * d), 0.1 / (1 + d)).cumsum(0)


def models(seed: int) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Callable and inputs, by name; weights and inputs from the seed."""
    torch.manual_seed(seed)
    convolution = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 4, 3), nn.GroupNorm(2, 4), nn.GELU(), nn.Flatten(), nn.Linear(4 * 16, 7),
    )  # fmt: skip
    perceptron = nn.Sequential(
        nn.Linear(14, 33), nn.Tanh(), nn.LayerNorm(33), nn.Linear(33, 21), nn.Softplus(),
        nn.Linear(21, 6), nn.LogSoftmax(-1),
    )  # fmt: skip
    upward = nn.Sequential(
        nn.Conv1d(4, 8, 3, padding=1), nn.ELU(), nn.Upsample(scale_factor=2), nn.InstanceNorm1d(8),
        nn.Conv1d(8, 3, 5), nn.Sigmoid(),
    )  # fmt: skip
    mask = (torch.rand(5, 9) > 0.3).float()
    mask[:, 0] = 1
    x = torch.randn
    return {
        "perceptron": (perceptron, (x(19, 14, requires_grad=True),)),
        "convolution": (convolution, (x(4, 3, 12, 12),)),
        "attention": (Attention(), (x(2, 11, 24, requires_grad=True),)),
        "gated": (Gated(), (x(13, 20, requires_grad=True),)),
        "pooled": (Pooled(), (torch.randint(0, 30, (5, 9)), mask)),
        "cell": (Cell(), (x(6, 3, 8), x(6, 10, requires_grad=True))),
        "upward": (upward, (x(3, 4, 15, requires_grad=True),)),
        "loss": (loss, (x(17, 9, requires_grad=True), torch.randint(0, 9, (17,)))),
        "distances": (distances, (x(12, 3, requires_grad=True), x(10, 3))),
        "bilinear": (
            nn.Sequential(nn.Linear(16, 16), nn.Hardswish(), nn.RMSNorm(16), nn.Linear(16, 16)),
            (x(16, 16, requires_grad=True),),
        ),
    }
