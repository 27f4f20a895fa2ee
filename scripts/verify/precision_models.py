"""The models of the precision bars: small, ordinary, random weights. `MODELS` makes each anew."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Made = tuple[nn.Module, tuple[Any, ...], Callable[[Any], torch.Tensor]]
"""A model, its inputs, and what makes a loss of its output."""


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.out = nn.Linear(64, 96), nn.Linear(96, 96), nn.Linear(96, 10)

    def forward(self, x):
        return self.out(F.relu(self.two(F.relu(self.one(x)))))


class Residual(nn.Module):
    def __init__(self, width, norm=nn.BatchNorm2d):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1 = norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = norm(width)

    def forward(self, x):
        return F.relu(x + self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))))


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.blocks = nn.Sequential(Residual(16), Residual(16))
        self.wide = nn.Conv2d(16, 32, 3, stride=2, groups=4)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.wide(self.blocks(self.stem(x))).mean((2, 3)))


class UNet(nn.Module):
    """GroupNorm, time embedding, attention, up and down: a diffusion model's parts."""

    def __init__(self, width=32, time=16) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.norm1, self.conv1 = nn.GroupNorm(8, width), nn.Conv2d(width, width, 3, padding=1)
        self.time = nn.Linear(time, width)
        self.norm2, self.conv2 = nn.GroupNorm(8, width), nn.Conv2d(width, width, 3, padding=1)
        self.down = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.norma = nn.GroupNorm(8, width)
        self.qkv, self.mix = nn.Conv1d(width, 3 * width, 1), nn.Conv1d(width, width, 1)
        self.up = nn.ConvTranspose2d(width, width, 4, stride=2, padding=1)
        self.leave = nn.Conv2d(2 * width, 3, 3, padding=1)

    def forward(self, x, time):
        x = self.enter(x)
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.time(F.silu(time))[:, :, None, None]
        x = x + self.conv2(F.silu(self.norm2(h)))
        y = self.down(x)
        b, c, height, width = y.shape
        q, k, v = self.qkv(self.norma(y).reshape(b, c, -1)).chunk(3, 1)
        weights = torch.einsum("bct,bcs->bts", q / math.sqrt(c), k)
        weights = torch.softmax(weights.float(), dim=-1).type(weights.dtype)
        y = y + self.mix(torch.einsum("bts,bcs->bct", weights, v)).reshape(b, c, height, width)
        return self.leave(torch.cat((x, self.up(y)), 1))


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


class LlamaLayer(nn.Module):
    def __init__(self, width=64, heads=4, inner=128) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (
            nn.Linear(width, inner, bias=False),
            nn.Linear(width, inner, bias=False),
        )
        self.down = nn.Linear(inner, width, bias=False)

    def rotate(self, x):
        half = x.shape[-1] // 2
        place = torch.arange(x.shape[-2])[:, None] / 10000 ** (torch.arange(half) / half)
        cos, sin = place.cos().repeat(1, 2), place.sin().repeat(1, 2)
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    def forward(self, x):
        b, t, width = x.shape
        y = self.norm1(x)
        q, k, v = (
            part(y).view(b, t, self.heads, -1).transpose(1, 2) for part in (self.q, self.k, self.v)
        )
        mixed = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True)
        x = x + self.o(mixed.transpose(1, 2).reshape(b, t, width))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(97, 64)
        self.layers = nn.ModuleList(LlamaLayer() for _ in range(2))
        self.norm, self.head = RMSNorm(64), nn.Linear(64, 97, bias=False)

    def forward(self, x):
        x = self.words(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class VitBlock(nn.Module):
    def __init__(self, width=48, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.one, self.two = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        b, t, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, width)
        x = x + self.mix(y)
        return x + self.two(F.gelu(self.one(self.norm2(x))))


class Vit(nn.Module):
    """Patches by a convolution, learned positions, LayerNorm before each part."""

    def __init__(self, width=48):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, stride=4)
        self.place = nn.Parameter(torch.zeros(1, 16, width))
        self.blocks = nn.Sequential(VitBlock(width), VitBlock(width))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(x + self.place.to(x.dtype))).mean(1))


class Encoder(nn.Module):
    """torch's own TransformerEncoder, whose products are partly functional calls."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(48, 4, 96, batch_first=True, dropout=0.0)
        self.enter = nn.Linear(24, 48)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(48, 10)

    def forward(self, x):
        return self.head(self.layers(self.enter(x)))


def _class_loss(out):
    out = out.float()
    return F.cross_entropy(out.flatten(0, -2), torch.zeros(out.flatten(0, -2).shape[0]).long())


def _mlp() -> Made:
    return Perceptron(), (torch.randn(32, 64),), _class_loss


def _cnn() -> Made:
    return ConvNet(), (torch.randn(4, 3, 16, 16),), _class_loss


def _unet() -> Made:
    inputs = (torch.randn(2, 3, 16, 16), torch.randn(2, 16))
    return UNet(), inputs, lambda out: out.float().pow(2).mean()


def _vit() -> Made:
    return Vit(), (torch.randn(2, 3, 16, 16),), _class_loss


def _llama() -> Made:
    return Llama(), (torch.randint(0, 97, (2, 24)),), _class_loss


def _encoder() -> Made:
    return Encoder(), (torch.randn(2, 12, 24),), _class_loss


def _hf_gpt2() -> Made:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=2,
        n_embd=64,
        n_head=4,
        vocab_size=97,
        n_positions=64,
        bos_token_id=1,
        eos_token_id=1,
    )
    return (
        GPT2LMHeadModel(config),
        (torch.randint(0, 97, (2, 24)),),
        lambda o: _class_loss(o.logits),
    )


def _hf_llama() -> Made:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        num_hidden_layers=2,
        hidden_size=64,
        intermediate_size=128,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=97,
        max_position_embeddings=64,
    )
    return (
        LlamaForCausalLM(config),
        (torch.randint(0, 97, (2, 24)),),
        lambda o: _class_loss(o.logits),
    )


MODELS: dict[str, Callable[[], Made]] = {
    "mlp": _mlp,
    "cnn": _cnn,
    "unet": _unet,
    "llama": _llama,
    "encoder": _encoder,
    "vit": _vit,
}
try:
    import transformers  # noqa: F401
except ImportError:
    pass
else:
    MODELS |= {"gpt2 (transformers)": _hf_gpt2, "llama (transformers)": _hf_llama}
