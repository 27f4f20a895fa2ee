"""The models that are measured: plain PyTorch, without a word of Reefwatch.

Shape suffixes: B batch, S sequence, D model width, H heads, K width of a head, F hidden width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle

import torch
from torch import nn
from torch.nn import functional as F


class Basic(nn.Module):
    """ResNet's basic block (He et al. 2015, arXiv 1512.03385, figure 5 left)."""

    growth = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.shortcut = shortcut(inputs, width, stride)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = F.relu(self.norm1(self.conv1(images)))
        return F.relu(self.norm2(self.conv2(hidden)) + self.shortcut(images))


class Bottleneck(nn.Module):
    """ResNet's bottleneck block (the same paper, figure 5 right), stride in the 3x3."""

    growth = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(4 * width)
        self.shortcut = shortcut(inputs, 4 * width, stride)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = F.relu(self.norm1(self.conv1(images)))
        hidden = F.relu(self.norm2(self.conv2(hidden)))
        return F.relu(self.norm3(self.conv3(hidden)) + self.shortcut(images))


def shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


class ResNet(nn.Module):
    """A residual network; `depths` blocks at widths w, 2w, 4w, 8w."""

    def __init__(
        self, block: type[Basic | Bottleneck], depths: tuple[int, ...], width: int, small: bool
    ) -> None:
        super().__init__()
        stem = nn.Conv2d(
            3, width, 3 if small else 7, 1 if small else 2, 1 if small else 3, bias=False
        )
        layers: list[nn.Module] = [stem, nn.BatchNorm2d(width), nn.ReLU()]
        if not small:
            layers.append(nn.MaxPool2d(3, 2, 1))
        inputs = width
        for stage, depth in enumerate(depths):
            for number in range(depth):
                stride = 2 if stage and not number else 1
                layers.append(block(inputs, width << stage, stride))
                inputs = (width << stage) * block.growth
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(inputs, 1000)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(images).mean((2, 3)))


class Attention(nn.Module):
    """Causal attention with rotary positions (Su et al. 2021, arXiv 2104.09864)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x_BSD: torch.Tensor, turn_SK: torch.Tensor) -> torch.Tensor:
        shape = (*x_BSD.shape[:2], self.heads, -1)
        q_BHSK, k_BHSK, v_BHSK = (
            layer(x_BSD).view(shape).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        q_BHSK, k_BHSK = rotate(q_BHSK, turn_SK), rotate(k_BHSK, turn_SK)
        y_BHSK = F.scaled_dot_product_attention(q_BHSK, k_BHSK, v_BHSK, is_causal=True)
        return self.o(y_BHSK.transpose(1, 2).flatten(2))


def rotate(x_BHSK: torch.Tensor, turn_SK: torch.Tensor) -> torch.Tensor:
    cos_SK, sin_SK = turn_SK.cos().to(x_BHSK.dtype), turn_SK.sin().to(x_BHSK.dtype)
    one, two = x_BHSK.chunk(2, -1)
    return torch.cat([one * cos_SK - two * sin_SK, one * sin_SK + two * cos_SK], -1)


class Layer(nn.Module):
    """One layer of LLaMA (Touvron et al. 2023, arXiv 2302.13971): RMSNorm, attention, SwiGLU."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = Attention(width, heads)
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x_BSD: torch.Tensor, turn_SK: torch.Tensor) -> torch.Tensor:
        x_BSD = x_BSD + self.attention(self.norm1(x_BSD), turn_SK)
        y_BSD = self.norm2(x_BSD)
        return x_BSD + self.down(F.silu(self.gate(y_BSD)) * self.up(y_BSD))


class Llama(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, hidden: int, words: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Layer(width, heads, hidden) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        half = torch.arange(width // heads // 2)
        self.register_buffer("speed_K", 10000.0 ** (-half / len(half)), persistent=False)

    def forward(self, words_BS: torch.Tensor) -> torch.Tensor:
        positions_S = torch.arange(words_BS.shape[1], device=words_BS.device)
        turn_SK = torch.outer(positions_S, self.speed_K)
        x_BSD = self.embed(words_BS)
        for layer in self.layers:
            x_BSD = layer(x_BSD, turn_SK)
        return self.head(self.norm(x_BSD))


Batch = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Workload:
    """A model to be trained: how it is built, and one batch of it."""

    name: str
    about: str
    build: Callable[[], nn.Module]
    batch: Callable[[str], Batch]
    channels_last: bool = False


def pictures(size: int, batch: int) -> Callable[[str], Batch]:
    def make(device: str) -> Batch:
        images = torch.randn(batch, 3, size, size, device=device)
        labels = torch.randint(1000, (batch,), device=device)
        return images.to(memory_format=torch.channels_last), labels

    return make


def text(words: int, length: int, batch: int) -> Callable[[str], Batch]:
    def make(device: str) -> Batch:
        words_BS = torch.randint(words, (batch, length + 1), device=device)
        return words_BS[:, :-1].contiguous(), words_BS[:, 1:].contiguous()

    return make


WORKLOADS = {
    load.name: load
    for load in [
        Workload(
            "cnn",
            "ResNet-18 of width 32, 32x32 pictures, batch 32",
            lambda: ResNet(Basic, (2, 2, 2, 2), 32, small=True),
            pictures(32, 32),
            channels_last=True,
        ),
        Workload(
            "transformer",
            "LLaMA of 4 layers, width 256, batch 8 x 128 words",
            lambda: Llama(4, 256, 8, 704, 2000),
            text(2000, 128, 8),
        ),
        Workload(
            "resnet50",
            "ResNet-50, 224x224 pictures, batch 64, channels_last",
            lambda: ResNet(Bottleneck, (3, 4, 6, 3), 64, small=False),
            pictures(224, 64),
            channels_last=True,
        ),
        Workload(
            "llama",
            "LLaMA of 12 layers, width 1024, batch 8 x 512 words",
            lambda: Llama(12, 1024, 16, 2816, 32000),
            text(32000, 512, 8),
        ),
    ]
}


class Training:
    """A model in training: bf16 autocast and AdamW; `step()` is one update."""

    def __init__(self, load: Workload, device: str, *, ddp: bool = False) -> None:
        torch.manual_seed(0)
        self.device = device
        self.model = load.build().to(device)
        if load.channels_last:
            self.model = self.model.to(memory_format=torch.channels_last)
        if ddp:
            self.model = nn.parallel.DistributedDataParallel(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.batches: Iterator[Batch] = cycle([load.batch(device) for _ in range(4)])

    def step(self) -> None:
        inputs, targets = next(self.batches)
        self.optimizer.zero_grad()
        with torch.autocast(torch.device(self.device).type, dtype=torch.bfloat16):
            outputs = self.model(inputs)
            loss = F.cross_entropy(outputs.flatten(0, -2), targets.flatten())
        loss.backward()
        self.optimizer.step()
