"""The labelled ops of `capture_kernel_names.py`: the dtype of each is known by construction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

DEVICE = "cuda"
TORCH = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp64": torch.float64,
}


@dataclass
class Case:
    """One op with known operands. `flops` of one call, 0 where that says nothing."""

    name: str
    kind: str
    dtype: str
    run: Callable[[], Any]
    flops: float = 0.0


@contextmanager
def tf32(on: bool) -> Iterator[None]:
    """TF32 for products and convolutions on or off, and back."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = on
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def rand(dtype: str, *shape: int, grad: bool = False) -> torch.Tensor:
    return (
        torch.randn(*shape, device=DEVICE, dtype=torch.float32)
        .to(TORCH[dtype])
        .requires_grad_(grad)
    )


def both(forward: Callable[[], torch.Tensor]) -> Callable[[], Any]:
    """Forward and backward in one."""

    def run() -> None:
        out = forward()
        out.backward(torch.ones_like(out))

    return run


def products(d: str) -> Iterator[Case]:
    for m, k, n in (
        (4096, 4096, 4096),
        (1024, 1024, 1024),
        (256, 4096, 128),
        (1000, 333, 77),
        (64, 8192, 64),
    ):
        a, b, c = rand(d, m, k), rand(d, k, n), rand(d, n, k)
        yield Case(f"mm {m}x{k}x{n}", "matmul", d, lambda a=a, b=b: a @ b, 2.0 * m * k * n)
        yield Case(
            f"mm NT {m}x{k}x{n}",
            "matmul",
            d,
            lambda a=a, c=c: a @ c.t(),
            2.0 * m * k * n,
        )
    a, b = rand(d, 16, 512, 512), rand(d, 16, 512, 512)
    yield Case("bmm", "matmul", d, lambda: torch.bmm(a, b), 2.0 * 16 * 512**3)
    x, y = rand(d, 16, 100, 40), rand(d, 16, 40, 60)
    yield Case("bmm odd", "matmul", d, lambda: torch.bmm(x, y), 2.0 * 16 * 100 * 40 * 60)
    m, v = rand(d, 4096, 4096), rand(d, 4096)
    yield Case("mv", "matvec", d, lambda: m @ v, 2.0 * 4096 * 4096)
    yield Case("dot", "matvec", d, lambda: torch.dot(v, v), 2.0 * 4096)
    line = nn.Linear(1024, 4096, device=DEVICE, dtype=TORCH[d])
    z = rand(d, 2048, 1024, grad=True)
    yield Case("linear fwd+bwd", "matmul", d, both(lambda: line(z)), 3 * 2.0 * 2048 * 1024 * 4096)
    yield Case(
        "linear gelu",
        "matmul",
        d,
        lambda: F.gelu(line(z), approximate="tanh"),
        2.0 * 2048 * 1024 * 4096,
    )


def convolutions(d: str) -> Iterator[Case]:
    def conv(name: str, module: nn.Module, shape: tuple[int, ...], last: bool = False) -> Case:
        module = module.to(DEVICE, TORCH[d])
        x = rand(d, *shape)
        if last:
            module = module.to(memory_format=torch.channels_last)
            x = x.to(memory_format=torch.channels_last)
        x.requires_grad_(True)
        return Case(name, "conv", d, both(lambda: module(x)))

    for last in (False, True):
        tag = " nhwc" if last else ""
        yield conv(f"conv 3x3{tag}", nn.Conv2d(128, 128, 3, padding=1), (32, 128, 56, 56), last)
        yield conv(f"conv 1x1{tag}", nn.Conv2d(256, 64, 1), (32, 256, 56, 56), last)
        yield conv(
            f"conv 7x7 stride 2{tag}",
            nn.Conv2d(3, 64, 7, stride=2, padding=3),
            (16, 3, 224, 224),
            last,
        )
        yield conv(f"conv odd{tag}", nn.Conv2d(37, 53, 3), (7, 37, 19, 23), last)
        yield conv(
            f"depthwise{tag}",
            nn.Conv2d(128, 128, 3, padding=1, groups=128),
            (16, 128, 56, 56),
            last,
        )
        yield conv(
            f"grouped{tag}", nn.Conv2d(128, 128, 3, padding=1, groups=8), (16, 128, 56, 56), last
        )
    yield conv("dilated", nn.Conv2d(64, 64, 3, padding=2, dilation=2), (16, 64, 56, 56))
    yield conv("transposed", nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1), (16, 64, 28, 28))
    yield conv("conv1d", nn.Conv1d(64, 128, 5, padding=2), (16, 64, 1024))
    yield conv("conv3d", nn.Conv3d(16, 32, 3, padding=1), (2, 16, 16, 32, 32))


def attention(d: str) -> Iterator[Case]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    shape = (4, 8, 512, 64)
    q, k, v = (rand(d, *shape, grad=True) for _ in range(3))
    flops = 4.0 * 4 * 8 * 512 * 512 * 64 * 3.5
    for word in ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH"):
        backend = getattr(SDPBackend, word, None)
        if backend is None:
            continue

        def run(causal: bool, backend: Any = backend) -> Any:
            with sdpa_kernel([backend]):
                both(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal))()

        yield Case(f"sdpa {word.lower()}", "attention", d, lambda run=run: run(False), flops)
        yield Case(f"sdpa {word.lower()} causal", "attention", d, lambda run=run: run(True))


def pointwise(d: str) -> Iterator[Case]:
    a, b = rand(d, 2048, 1024, grad=True), rand(d, 2048, 1024)
    row = rand(d, 1024)
    strided = rand(d, 1024, 2048).t()
    index = torch.randint(0, 2048, (512,), device=DEVICE)
    mask = torch.rand(2048, 1024, device=DEVICE) > 0.5
    ops: dict[str, Callable[[], torch.Tensor]] = {
        "add": lambda: a + b,
        "add row": lambda: a + row,
        "add strided": lambda: a + strided,
        "mul": lambda: a * b,
        "div": lambda: a / (b + 3),
        "scale": lambda: a * 0.5,
        "sub from": lambda: 1 - a,
        "exp": lambda: a.exp(),
        "pow": lambda: a.pow(2),
        "rsqrt": lambda: (a * a + 1).rsqrt(),
        "tanh": lambda: a.tanh(),
        "sigmoid": lambda: a.sigmoid(),
        "relu": lambda: F.relu(a),
        "gelu": lambda: F.gelu(a),
        "silu": lambda: F.silu(a),
        "leaky": lambda: F.leaky_relu(a),
        "softplus": lambda: F.softplus(a),
        "clamp": lambda: a.clamp(-1, 1),
        "where": lambda: torch.where(mask, a, b),
        "masked_fill": lambda: a.masked_fill(mask, 0.0),
        "dropout": lambda: F.dropout(a, 0.1),
        "lerp": lambda: torch.lerp(a, b, 0.3),
        "addcmul": lambda: torch.addcmul(a, b, b),
        "copy": lambda: strided.contiguous() + a,
        "cat": lambda: torch.cat([a, b]),
        "index": lambda: a[index],
        "index_select": lambda: a.index_select(0, index),
        "gather": lambda: a.gather(1, (index % 1024)[None].expand(2048, -1)),
        "flip": lambda: a.flip(0),
        "roll": lambda: a.roll(3, 0),
        "triu": lambda: a.triu(),
        "abs": lambda: a.abs(),
        "softmax": lambda: a.softmax(-1),
        "softmax small": lambda: a.view(-1, 64).softmax(-1),
        "log_softmax": lambda: a.log_softmax(-1),
        "sum": lambda: a.sum(),
        "sum dim": lambda: a.sum(0),
        "mean": lambda: a.mean(-1),
        "max": lambda: a.max(),
        "amax": lambda: a.amax(-1),
        "norm": lambda: a.norm(),
        "var": lambda: a.var(-1),
        "logsumexp": lambda: a.logsumexp(-1),
        "cumsum": lambda: a.cumsum(-1),
        "prod": lambda: a[:, :4].prod(-1),
        "topk": lambda: a.topk(5).values,
        "sort": lambda: a[:64].sort().values,
        "layer_norm": lambda: F.layer_norm(a, (1024,), row, row),
        "rms_norm": lambda: F.rms_norm(a, (1024,), row),
        "mse": lambda: F.mse_loss(a, b),
        "l1": lambda: F.l1_loss(a, b),
        "kl": lambda: F.kl_div(a.log_softmax(-1), b.softmax(-1)),
        "cross_entropy": lambda: F.cross_entropy(
            a, torch.zeros(2048, device=DEVICE, dtype=torch.long)
        ),
        "bce": lambda: F.binary_cross_entropy_with_logits(a, b.sigmoid()),
        "embedding": lambda: F.embedding(index, a),
    }
    for name, op in ops.items():
        yield Case(name, "pointwise", d, both(op))
    image = rand(d, 8, 64, 32, 32, grad=True)
    for last in (False, True):
        x = image.detach().to(memory_format=torch.channels_last) if last else image.detach()
        x.requires_grad_(True)
        tag = " nhwc" if last else ""
        batch = nn.BatchNorm2d(64, device=DEVICE, dtype=TORCH[d])
        group = nn.GroupNorm(8, 64, device=DEVICE, dtype=TORCH[d])
        images: dict[str, Callable[[], torch.Tensor]] = {
            "batch_norm": lambda x=x, m=batch: m(x),
            "group_norm": lambda x=x, m=group: m(x),
            "batch_norm eval": lambda x=x, m=batch: F.batch_norm(
                x, m.running_mean, m.running_var, m.weight, m.bias
            ),
            "max_pool": lambda x=x: F.max_pool2d(x, 2),
            "avg_pool": lambda x=x: F.avg_pool2d(x, 2),
            "adaptive": lambda x=x: F.adaptive_avg_pool2d(x, 1),
            "nearest": lambda x=x: F.interpolate(x, scale_factor=2),
            "bilinear": lambda x=x: F.interpolate(x, scale_factor=2, mode="bilinear"),
            "pad": lambda x=x: F.pad(x, (1, 1, 1, 1)),
            "reflect": lambda x=x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
            "unfold": lambda x=x: F.unfold(x, 3),
        }
        for name, op in images.items():
            yield Case(name + tag, "pointwise", d, both(op))


def training(d: str) -> Iterator[Case]:
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
        for how in ({"foreach": True}, {"fused": True}, {"foreach": False}):
            p = [rand(d, 512, 512, grad=True) for _ in range(4)]
            for one in p:
                one.grad = torch.randn_like(one)
            more = {"momentum": 0.9} if kind is torch.optim.SGD else {}
            optimizer = kind(p, lr=1e-3, **how, **more)
            yield Case(f"{kind.__name__} {how}", "pointwise", d, optimizer.step)
    p = [rand(d, 512, 512, grad=True) for _ in range(4)]
    for one in p:
        one.grad = torch.randn_like(one)
    yield Case("clip_grad_norm", "pointwise", d, lambda: nn.utils.clip_grad_norm_(p, 1.0))
    x = rand(d, 8, 64, 128, grad=True)
    lstm = nn.LSTM(128, 128, batch_first=True, device=DEVICE, dtype=TORCH[d])
    yield Case("lstm", "rnn", d, both(lambda: lstm(x)[0]))


def casts() -> Iterator[Case]:
    for one in ("fp32", "bf16", "fp16", "fp64"):
        for two in ("fp32", "bf16", "fp16"):
            if one == two:
                continue
            x = rand(one, 2048, 1024)
            yield Case(f"cast {one} to {two}", "cast", "mixed", lambda x=x, t=TORCH[two]: x.to(t))
            yield Case(
                f"cast strided {one} to {two}",
                "cast",
                "mixed",
                lambda x=x, t=TORCH[two]: x.t().to(t),
            )
    x, y = rand("bf16", 2048, 1024), rand("fp32", 2048, 1024)
    yield Case("add bf16 and fp32", "promotion", "mixed", lambda: x + y)
    yield Case("mul bf16 and fp32 row", "promotion", "mixed", lambda: x * y[0])


def special() -> Iterator[Case]:
    a = torch.randint(-100, 100, (1024, 1024), device=DEVICE, dtype=torch.int8)
    yield Case(
        "int_mm", "matmul", "int8", lambda: torch._int_mm(a, a.t().contiguous().t()), 2.0 * 1024**3
    )
    f8 = rand("fp32", 1024, 1024).to(torch.float8_e4m3fn)
    one = torch.ones((), device=DEVICE)
    for out in (torch.bfloat16, torch.float16):
        yield Case(
            f"scaled_mm to {out}",
            "matmul",
            "fp8",
            lambda out=out: torch._scaled_mm(f8, f8.t(), one, one, out_dtype=out),
            2.0 * 1024**3,
        )
    h = rand("fp16", 4096, 4096)

    def reduced() -> None:
        torch.backends.cuda.matmul.allow_fp16_accumulation = True
        try:
            h @ h
        finally:
            torch.backends.cuda.matmul.allow_fp16_accumulation = False

    yield Case("mm with fp16 accumulation", "matmul", "fp16", reduced, 2.0 * 4096**3)
    c = torch.randn(512, 512, device=DEVICE, dtype=torch.complex64)
    yield Case("mm complex", "matmul", "unknown", lambda: c @ c)
    yield Case("fft", "other", "unknown", lambda: torch.fft.rfft2(rand("fp32", 64, 64, 64)))
    for name, call in (("randn", torch.randn), ("rand", torch.rand)):
        for d in ("fp32", "bf16", "fp16"):
            yield Case(
                f"{name} {d}",
                "pointwise",
                d,
                lambda call=call, d=d: call(1 << 20, device=DEVICE, dtype=TORCH[d]),
            )
    s = rand("fp32", 256, 256)
    yield Case(
        "cholesky",
        "other",
        "fp32",
        lambda: torch.linalg.cholesky(s @ s.t() + 300 * torch.eye(256, device=DEVICE)),
    )


def compiled(d: str) -> Iterator[Case]:
    x, w = rand(d, 1024, 1024), rand(d, 1024, 1024)
    chain = torch.compile(lambda x: F.gelu(F.layer_norm(x, (1024,))) * 2 + x.sum(-1, keepdim=True))
    yield Case("compiled chain", "compiled", d, lambda: chain(x))
    tuned = torch.compile(lambda x, w: F.relu(x @ w), mode="max-autotune-no-cudagraphs")
    yield Case("compiled matmul, autotuned", "compiled", d, lambda: tuned(x, w))


def cases(only: str) -> Iterator[tuple[str, Iterator[Case]]]:
    for d in ("bf16", "fp16", "tf32", "fp32", "fp64"):
        for maker in (products, convolutions, attention, pointwise, training):
            if d == "tf32" and maker in (pointwise, training):
                continue
            yield f"{maker.__name__} {d}", maker(d)
    yield "casts", casts()
    yield "special", special()
    for d in ("bf16", "fp32"):
        yield f"compiled {d}", compiled(d)


class Net(nn.Module):
    """A small convolutional net with a GroupNorm and attention over its pixels."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.norm = nn.GroupNorm(8, width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(self.stem(x))
        x = self.norm(x).flatten(2).transpose(1, 2)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.head(x.mean(1))


class Island(nn.Module):
    """A linear layer that leaves autocast."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(1024, 1024)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast(DEVICE, enabled=False):
            return self.line(x.float())


def steps(name: str) -> Callable[[], None]:
    """One training step of a small program; `name` says what is special about it."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if name in ("island", "clean"):
        model = nn.Sequential(
            nn.Linear(1024, 1024),
            nn.GELU(),
            Island() if name == "island" else nn.Linear(1024, 1024),
            nn.Linear(1024, 1024),
        ).to(DEVICE)
        x = torch.randn(2048, 1024, device=DEVICE)
    else:
        model = Net().to(DEVICE)
        x = torch.randn(16, 3, 32, 32, device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(DEVICE, torch.bfloat16, enabled=name not in ("fp32", "tf32")):
            if name == "math":
                with sdpa_kernel([SDPBackend.MATH]):
                    loss = model(x).float().square().mean()
            else:
                loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()

    return step
