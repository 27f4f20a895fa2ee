"""The models of the loop bars: small, ordinary, random weights. `MODELS` makes each anew."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.out = nn.Linear(12, 16), nn.Linear(16, 16), nn.Linear(16, 4)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return self.out(self.drop(F.gelu(self.two(torch.tanh(self.one(x))))))

    @staticmethod
    def batch():
        return torch.randn(8, 12), torch.randint(0, 4, (8,))


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.conv2, self.norm2 = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = F.silu(self.norm1(self.conv1(x)))
        x = F.max_pool2d(x, 2)
        x = F.silu(x + self.norm2(self.conv2(x)))
        return self.head(x.mean((2, 3)))

    @staticmethod
    def batch():
        return torch.randn(6, 3, 8, 8), torch.randint(0, 4, (6,))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.qkv, self.proj = nn.Linear(16, 48), nn.Linear(16, 16)
        self.up, self.down, self.drop = nn.Linear(16, 32), nn.Linear(32, 16), nn.Dropout(0.1)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        late = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (q @ k.transpose(1, 2) / 4).masked_fill(late, float("-inf"))
        x = x + self.drop(self.proj(scores.softmax(-1) @ v))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))


class Transformer(nn.Module):
    """Causal, with a mask of -inf."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 4)

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))

    @staticmethod
    def batch():
        return torch.randint(0, 11, (4, 6)), torch.randint(0, 4, (4,))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.cell, self.head = nn.GRUCell(8, 12), nn.Linear(12, 4)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        h = torch.zeros(len(x), 12)
        for token in self.embed(x).unbind(1):
            h = self.cell(token, h)
        return self.head(self.drop(h))

    @staticmethod
    def batch():
        return torch.randint(0, 11, (4, 5)), torch.randint(0, 4, (4,))


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.norm, self.two = nn.Linear(4, 16), nn.BatchNorm1d(16), nn.Linear(16, 6)

    def forward(self, z):
        return self.two(F.relu(self.norm(self.one(z))))


class Discriminator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.drop = nn.Linear(6, 16), nn.Linear(16, 1), nn.Dropout(0.1)

    def forward(self, x):
        return self.two(self.drop(F.leaky_relu(self.one(x), 0.2)))

    @staticmethod
    def batch():
        return torch.randn(8, 6), torch.zeros(8)


MODELS = {
    "mlp": Perceptron,
    "cnn": ConvNet,
    "transformer": Transformer,
    "rnn": Recurrent,
}


def leaves(model: nn.Module) -> list[str]:
    """Paths of the modules that hold parameters of their own, in order."""
    return [name for name, part in model.named_modules() if list(part.parameters(recurse=False))]
