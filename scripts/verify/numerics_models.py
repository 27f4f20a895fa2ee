"""Small models of many kinds, each with a batch and a loss: what healthy training looks like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from numerics_faults import MODELS as FEW
from torch import nn


class Images(nn.Module):
    """Classifies images: `net` makes ten numbers of each."""

    size, channels = 16, 3

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Any, y: Any) -> Any:
        return F.cross_entropy(self.net(x).float(), y)

    def batch(self) -> Any:
        return torch.randn(8, self.channels, self.size, self.size), torch.randint(0, 10, (8,))


class Bottleneck(nn.Module):
    def __init__(self, width: int, out: int, stride: int) -> None:
        super().__init__()
        self.parts = nn.Sequential(
            nn.Conv2d(width, out // 4, 1, bias=False), nn.BatchNorm2d(out // 4), nn.ReLU(),
            nn.Conv2d(out // 4, out // 4, 3, stride, 1, bias=False), nn.BatchNorm2d(out // 4),
            nn.ReLU(), nn.Conv2d(out // 4, out, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        same = width == out and stride == 1
        self.short = nn.Identity() if same else nn.Conv2d(width, out, 1, stride, bias=False)

    def forward(self, x: Any) -> Any:
        return F.relu(self.parts(x) + self.short(x))


def resnet() -> nn.Module:
    """The blocks of ResNet-50 (3, 4, 6, 3), an eighth as wide."""
    parts: list[nn.Module] = [nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU()]
    width = 8
    for stage, count in enumerate((3, 4, 6, 3)):
        for n in range(count):
            parts.append(Bottleneck(width, 32 << stage, 2 if n == 0 and stage else 1))
            width = 32 << stage
    return Images(
        nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))
    )


class Block(nn.Module):
    """A transformer's block, norm first; `causal` attends to what came before."""

    def __init__(self, dim: int, heads: int, causal: bool = False, drop: float = 0.0) -> None:
        super().__init__()
        self.heads, self.causal, self.drop = heads, causal, drop
        self.one, self.two = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(self.one(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        drop = self.drop if self.training else 0.0
        a = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, dropout_p=drop)
        x = x + self.out(a.transpose(1, 2).flatten(2))
        return x + self.mlp(self.two(x))


class Vit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 64, 4, 4)
        self.places = nn.Parameter(torch.randn(1, 17, 64) * 0.02)
        self.first = nn.Parameter(torch.zeros(1, 1, 64))
        self.blocks = nn.Sequential(*(Block(64, 4) for _ in range(6)))
        self.norm, self.head = nn.LayerNorm(64), nn.Linear(64, 10)

    def forward(self, x: Any) -> Any:
        h = self.patch(x).flatten(2).transpose(1, 2)
        h = torch.cat([self.first.expand(len(h), -1, -1).to(h.dtype), h], 1) + self.places
        return self.head(self.norm(self.blocks(h))[:, 0])


class LlamaLayer(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.one, self.two = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(dim, 2 * dim, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * dim, dim, bias=False)

    def forward(self, x: Any, turn: Any) -> Any:
        h = self.one(x)
        q, k, v = (p(h).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in
                   (self.q, self.k, self.v))  # fmt: skip
        q, k = _turned(q, turn), _turned(k, turn)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).flatten(2))
        h = self.two(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def _turned(x: Any, turn: Any) -> Any:
    cos, sin = turn
    a, b = x.chunk(2, -1)
    return x * cos.to(x.dtype) + torch.cat([-b, a], -1) * sin.to(x.dtype)


class Llama(nn.Module):
    """Twelve layers with rotary places, RMSNorm and SwiGLU."""

    def __init__(self, layers: int = 12, dim: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.words = nn.Embedding(96, dim)
        self.layers = nn.ModuleList(LlamaLayer(dim, heads) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(dim), nn.Linear(dim, 96, bias=False)
        each = dim // heads
        angle = torch.arange(24)[:, None] / 10000 ** (torch.arange(0, each, 2) / each)
        angle = torch.cat([angle, angle], -1)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, x: Any, y: Any) -> Any:
        h = self.words(x)
        for layer in self.layers:
            h = layer(h, (self.cos, self.sin))
        return F.cross_entropy(self.head(self.norm(h)).float().flatten(0, 1), y.flatten())

    def batch(self) -> Any:
        return torch.randint(0, 96, (4, 24)), torch.randint(0, 96, (4, 24))


class Words(nn.Module):
    """A language model around `body`, which maps (N, L, 32) to (N, L, 32)."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.words, self.body, self.head = nn.Embedding(64, 32), body, nn.Linear(32, 64)

    def forward(self, x: Any, y: Any) -> Any:
        h = self.body(self.words(x))
        h = h[0] if isinstance(h, tuple) else h
        return F.cross_entropy(self.head(h).float().flatten(0, 1), y.flatten())

    def batch(self) -> Any:
        return torch.randint(0, 64, (4, 12)), torch.randint(0, 64, (4, 12))


class Auto(nn.Module):
    """A variational autoencoder: draws noise in its forward."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 16))
        self.up = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 64))

    def forward(self, x: Any, y: Any) -> Any:
        mean, log = self.down(x).float().chunk(2, -1)
        z = mean + torch.randn_like(mean) * (0.5 * log).exp()
        lost = F.binary_cross_entropy_with_logits(self.up(z).float(), y)
        return lost - 0.5 * (1 + log - mean.square() - log.exp()).mean()

    def batch(self) -> Any:
        return torch.randn(8, 64), torch.rand(8, 64)


class Unet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU())
        self.two = nn.Sequential(nn.Conv2d(8, 16, 3, 2, 1), nn.GroupNorm(4, 16), nn.SiLU())
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.out = nn.Conv2d(16, 3, 3, padding=1, padding_mode="reflect")

    def forward(self, x: Any, y: Any) -> Any:
        a = self.one(x)
        b = F.interpolate(self.up(self.two(a)), size=x.shape[-2:], mode="bilinear")
        return F.smooth_l1_loss(self.out(torch.cat([a, b.to(a.dtype)], 1)).float(), y)

    def batch(self) -> Any:
        return torch.randn(4, 3, 12, 12), torch.randn(4, 3, 12, 12)


class Experts(nn.Module):
    """A mixture of experts: top-k, gathers and index_add."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(32, 4)
        self.experts = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))

    def forward(self, x: Any) -> Any:
        flat = x.flatten(0, 1)
        weight, chosen = self.gate(flat).float().softmax(-1).topk(2, -1)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            row, place = (chosen == number).nonzero(as_tuple=True)
            part = expert(flat[row]) * weight[row, place, None].to(flat.dtype)
            out = out.index_add(0, row, part.to(out.dtype))
        return out.view_as(x)


class Graph(nn.Module):
    """A graph network: scatter and norms over few features."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(8, 16), nn.Linear(16, 4)
        self.register_buffer("edges", torch.randint(0, 24, (2, 80)))

    def forward(self, x: Any, y: Any) -> Any:
        a, b = self.edges
        h = F.elu(self.one(x))
        h = h + torch.zeros_like(h).scatter_add(0, b[:, None].expand(-1, 16), h[a])
        return F.nll_loss(F.log_softmax(self.two(F.normalize(h, dim=-1)).float(), -1), y)

    def batch(self) -> Any:
        return torch.randn(24, 8), torch.randint(0, 4, (24,))


def _plain() -> nn.Module:
    return Images(
        nn.Sequential(nn.Flatten(), nn.Linear(768, 64), nn.ReLU(), nn.Dropout(0.2),
                      nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    )  # fmt: skip


def _mobile() -> nn.Module:
    return Images(
        nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.Hardswish(),
                      nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.BatchNorm2d(16), nn.ReLU6(),
                      nn.Conv2d(16, 32, 1), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(512, 10))
    )  # fmt: skip


def _mixer() -> nn.Module:
    return Images(
        nn.Sequential(nn.Conv2d(3, 32, 4, 4), nn.Flatten(2), nn.Linear(16, 16), nn.GELU("tanh"),
                      nn.LayerNorm(16), nn.Flatten(), nn.Linear(512, 10))
    )  # fmt: skip


def _wave() -> nn.Module:
    class Wave(Images):
        def batch(self) -> Any:
            return torch.randn(8, 2, 64), torch.randint(0, 10, (8,))

    return Wave(
        nn.Sequential(nn.Conv1d(2, 8, 5, dilation=2), nn.BatchNorm1d(8), nn.LeakyReLU(),
                      nn.MaxPool1d(2), nn.Conv1d(8, 8, 3), nn.Softplus(), nn.Flatten(),
                      nn.Linear(208, 10))
    )  # fmt: skip


MODELS: dict[str, Callable[[], Any]] = {
    **FEW,
    "resnet": resnet,
    "vit": lambda: Images(Vit()),
    "llama": Llama,
    "mlp": _plain,
    "mobile": _mobile,
    "mixer": _mixer,
    "wave": _wave,
    "unet": Unet,
    "autoencoder": Auto,
    "experts": lambda: Words(Experts()),
    "graph": Graph,
    "lstm": lambda: Words(nn.LSTM(32, 32, batch_first=True)),
    "encoder": lambda: Words(nn.TransformerEncoderLayer(32, 2, 48, 0.1, batch_first=True)),
    "causal": lambda: Words(nn.Sequential(Block(32, 2, True, 0.1), Block(32, 2, True))),
}


class Borrowed(nn.Module):
    """A model of the transformers library with random weights."""

    def __init__(self, model: nn.Module, kind: str, vocabulary: int = 64) -> None:
        super().__init__()
        self.model, self.kind, self.vocabulary = model, kind, vocabulary

    def forward(self, x: Any, y: Any) -> Any:
        if self.kind == "image":
            return self.model(pixel_values=x, labels=y).loss
        return self.model(input_ids=x, labels=y).loss

    def batch(self) -> Any:
        if self.kind == "image":
            return torch.randn(4, 3, 16, 16), torch.randint(0, 3, (4,))
        shape = (4, 10)
        labels = torch.randint(0, 2, (4,)) if self.kind == "label" else None
        x = torch.randint(3, self.vocabulary, shape)
        return x, x.clone() if labels is None else labels


def borrowed() -> dict[str, Callable[[], Any]]:
    """Those of the transformers library; empty without it."""
    try:
        import transformers as t
    except ImportError:
        return {}
    size: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    wide = {**size, "intermediate_size": 48, "vocab_size": 64}

    def bert() -> Any:
        return Borrowed(t.BertForSequenceClassification(t.BertConfig(**wide)), "label")

    def gpt() -> Any:
        return Borrowed(
            t.GPT2LMHeadModel(t.GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=64)), "words"
        )

    def llama() -> Any:
        return Borrowed(t.LlamaForCausalLM(t.LlamaConfig(**wide)), "words")

    def five() -> Any:
        made = t.T5Config(d_model=32, d_kv=16, d_ff=48, num_layers=2, num_heads=2, vocab_size=64,
                          decoder_start_token_id=0)  # fmt: skip
        return Borrowed(t.T5ForConditionalGeneration(made), "words")

    def vit() -> Any:
        made = t.ViTConfig(**size, intermediate_size=48, image_size=16, patch_size=4, num_labels=3)
        return Borrowed(t.ViTForImageClassification(made), "image")

    return {"hf-bert": bert, "hf-gpt2": gpt, "hf-llama": llama, "hf-t5": five, "hf-vit": vit}
