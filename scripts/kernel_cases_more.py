"""More labelled ops for `capture_kernel_names.py`: layouts, recurrences, sparse, compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from kernel_cases import DEVICE, TORCH, Case, both, rand
from torch import nn

UNARY = (
    *("log", "log1p", "expm1", "sin", "cos", "tan", "atan", "asinh", "erf", "erfinv", "floor"),
    *("ceil", "round", "trunc", "frac", "sign", "neg", "reciprocal", "sqrt", "square"),
    *("digamma", "lgamma", "sinc", "logit", "i0"),
)
ACTIVATIONS = (
    *("elu", "selu", "celu", "mish", "hardswish", "hardtanh", "hardsigmoid", "logsigmoid"),
    *("softsign", "relu6", "glu"),
)
BINARY = (
    *("atan2", "fmod", "remainder", "maximum", "minimum", "hypot", "copysign", "logaddexp"),
    *("eq", "lt", "pow"),
)


def applied(call: Callable[..., Any], *operands: torch.Tensor) -> Callable[[], Any]:
    return lambda: call(*operands)


def products(d: str) -> Iterator[Case]:
    t = TORCH[d]
    for m, k, n in (
        *((8192, 8192, 8192), (1, 4096, 4096), (16, 4096, 11008), (8192, 64, 8192)),
        *((127, 129, 131), (31, 7, 5), (2048, 1000, 2048), (64, 64, 32768)),
    ):
        a, b, at, bt = rand(d, m, k), rand(d, k, n), rand(d, k, m), rand(d, n, k)
        flops = 2.0 * m * k * n
        yield Case(f"mm TN {m}x{k}x{n}", "matmul", d, lambda a=at, b=b: a.t() @ b, flops)
        yield Case(f"mm TT {m}x{k}x{n}", "matmul", d, lambda a=at, b=bt: a.t() @ b.t(), flops)
        yield Case(f"mm NN {m}x{k}x{n}", "matmul", d, lambda a=a, b=b: a @ b, flops)
        bias = rand(d, n)
        yield Case(
            f"addmm {m}x{k}x{n}", "matmul", d, lambda c=bias, a=a, b=b: torch.addmm(c, a, b), flops
        )
    x, y, c = rand(d, 64, 128, 64), rand(d, 64, 64, 256), rand(d, 64, 128, 256)
    for name, call in (
        ("baddbmm", lambda: torch.baddbmm(c, x, y)),
        ("bmm strided", lambda: torch.bmm(x.transpose(1, 2), c)),
        ("einsum", lambda: torch.einsum("bij,bjk->bik", x, y)),
        ("addbmm", lambda: torch.addbmm(c[0], x, y)),
        ("matmul broadcast", lambda: torch.matmul(x, y[0])),
        ("outer", lambda: torch.outer(c[0, 0], c[0, 1])),
        ("addr", lambda: torch.addr(c[0], c[0, :, 0], c[0, 0])),
        ("addmv", lambda: torch.addmv(c[0, :, 0], c[0], c[0, 0])),
        ("bilinear", lambda: F.bilinear(x, x, rand(d, 8, 64, 64))),
        ("cdist", lambda: torch.cdist(x, x)),
    ):
        yield Case(name, "matmul", d, call)
    mlp = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).to(DEVICE, t)
    z = rand(d, 4096, 512, grad=True)
    yield Case("mlp fwd+bwd", "matmul", d, both(lambda: mlp(z)))
    odd = nn.Linear(333, 77).to(DEVICE, t)
    w = rand(d, 1000, 333, grad=True)
    yield Case("odd linear fwd+bwd", "matmul", d, both(lambda: odd(w)))


def convolutions(d: str) -> Iterator[Case]:
    def conv(name: str, module: nn.Module, shape: tuple[int, ...], form: Any = None) -> Case:
        module, x = module.to(DEVICE, TORCH[d]), rand(d, *shape)
        if form is not None:
            module, x = module.to(memory_format=form), x.to(memory_format=form)
        x.requires_grad_(True)
        return Case(name, "conv", d, both(lambda: module(x)))

    last, last3 = torch.channels_last, torch.channels_last_3d
    for form, tag in ((None, ""), (last, " nhwc")):
        for kernel in (1, 3, 5, 9):
            m = nn.Conv2d(64, 96, kernel, padding=kernel // 2)
            yield conv(f"conv {kernel}x{kernel} 64 to 96{tag}", m, (8, 64, 40, 40), form)
        m = nn.Conv2d(512, 512, 3, padding=1)
        yield conv(f"conv 3x3 wide{tag}", m, (32, 512, 14, 14), form)
        m = nn.Conv2d(256, 512, 1, stride=2)
        yield conv(f"conv 1x1 stride 2{tag}", m, (32, 256, 28, 28), form)
        m = nn.ConvTranspose2d(128, 64, 3, stride=2)
        yield conv(f"transposed 3x3{tag}", m, (8, 128, 28, 28), form)
        m = nn.Conv2d(96, 96, 7, padding=3, groups=96)
        yield conv(f"depthwise 7x7{tag}", m, (8, 96, 56, 56), form)
        m = nn.Conv2d(3, 768, 16, stride=16)
        yield conv(f"patches{tag}", m, (8, 3, 224, 224), form)
        m = nn.Conv2d(64, 64, 3, padding=1, groups=32)
        yield conv(f"grouped by 32{tag}", m, (8, 64, 56, 56), form)
        m = nn.Conv2d(4, 320, 3, padding=1)
        yield conv(f"conv of 4 channels{tag}", m, (2, 4, 64, 64), form)
    for form, tag in ((None, ""), (last3, " ndhwc")):
        m3 = nn.Conv3d(32, 64, 3, padding=1)
        yield conv(f"conv3d{tag}", m3, (2, 32, 8, 28, 28), form)
        yield conv(f"conv3d 1x1{tag}", nn.Conv3d(32, 64, 1), (2, 32, 8, 28, 28), form)
        m3 = nn.Conv3d(16, 16, 3, padding=1, groups=16)
        yield conv(f"conv3d depthwise{tag}", m3, (2, 16, 8, 28, 28), form)
        yield conv(
            f"conv3d transposed{tag}", nn.ConvTranspose3d(16, 8, 2, 2), (2, 16, 8, 8, 8), form
        )
    yield conv("conv1d depthwise", nn.Conv1d(256, 256, 4, padding=3, groups=256), (4, 256, 512))
    yield conv("conv1d strided", nn.Conv1d(1, 512, 10, stride=5), (2, 1, 16000))
    yield conv("conv1d transposed", nn.ConvTranspose1d(64, 32, 8, stride=4), (4, 64, 256))


def attention(d: str) -> Iterator[Case]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    for heads, length, width in ((16, 1024, 128), (8, 300, 80), (4, 256, 256), (12, 197, 64)):
        q, k, v = (rand(d, 2, heads, length, width, grad=True) for _ in range(3))
        mask = rand(d, 2, 1, length, length)
        for word in ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH"):

            def run(
                word: str = word, q: Any = q, k: Any = k, v: Any = v, mask: Any = None, p: float = 0
            ) -> Any:
                with sdpa_kernel([getattr(SDPBackend, word)]):
                    both(lambda: F.scaled_dot_product_attention(q, k, v, mask, dropout_p=p))()

            name = f"sdpa {word.lower()} {length}x{width}"
            yield Case(name, "attention", d, run)
            yield Case(f"{name} dropout", "attention", d, lambda run=run: run(p=0.1))
            if word != "FLASH_ATTENTION":
                yield Case(f"{name} mask", "attention", d, lambda run=run, m=mask: run(mask=m))
    t = rand(d, 4, 128, 256, grad=True)
    layer = nn.TransformerEncoderLayer(256, 4, 512, batch_first=True).to(DEVICE, TORCH[d])
    yield Case("encoder layer", "attention", d, both(lambda: layer(t)))
    calm = nn.TransformerEncoderLayer(256, 4, 512, batch_first=True).to(DEVICE, TORCH[d]).eval()

    def fast() -> None:
        with torch.no_grad():
            calm(t)

    yield Case("encoder layer, fast path", "attention", d, fast)


def pointwise(d: str) -> Iterator[Case]:
    a, b = rand(d, 512, 2048, grad=True), rand(d, 512, 2048)
    pos = b.abs() + 0.1
    words = torch.randint(0, 512, (64, 32), device=DEVICE)
    offsets = torch.arange(0, 2048, 32, device=DEVICE)
    index = torch.randint(0, 512, (512, 2048), device=DEVICE)
    ops: dict[str, Callable[[], Any]] = {
        name: applied(getattr(torch, name), pos * 0.4) for name in UNARY
    }
    ops |= {name: both(applied(getattr(F, name), a)) for name in ACTIVATIONS}
    ops |= {name: applied(getattr(torch, name), pos, pos) for name in BINARY}
    ops |= {
        "add scalar": lambda: a + 2.5,
        "add in place": lambda: b.add_(0.0),
        "addcdiv": lambda: torch.addcdiv(a, b, pos),
        "cumprod": lambda: pos.cumprod(-1),
        "cummax": lambda: pos.cummax(-1),
        "logcumsumexp": lambda: pos.logcumsumexp(-1),
        "argmax": lambda: a.argmax(-1),
        "min dim": lambda: a.min(-1),
        "aminmax": lambda: torch.aminmax(b),
        "median": lambda: b.median(-1),
        "std_mean": lambda: torch.std_mean(b, -1),
        "nansum": lambda: b.nansum(),
        "any": lambda: (b > 0).any(-1),
        "all close": lambda: torch.isfinite(b).all(),
        "sum 3d": lambda: b.view(8, 64, 2048).sum((0, 2)),
        "argsort": lambda: b.argsort(-1),
        "sort long": lambda: b.view(-1).sort(),
        "kthvalue": lambda: b.kthvalue(3),
        "topk wide": lambda: b.topk(100),
        "unique": lambda: b[:8, :8].unique(),
        "multinomial": lambda: pos[:4].float().multinomial(3),
        "scatter_add": lambda: torch.zeros_like(b).scatter_add_(0, index, b),
        "scatter_reduce": lambda: torch.zeros_like(b).scatter_reduce_(0, index, b, "amax"),
        "index_add": lambda: torch.zeros_like(b).index_add_(0, words[:16].flatten() % 512, b),
        "index_put": lambda: b.clone().index_put_((words,), b[:1]),
        "index_copy": lambda: b.clone().index_copy_(0, torch.arange(64, device=DEVICE), b[:64]),
        "masked_select": lambda: b.masked_select(b > 0),
        "take": lambda: b.take(words),
        "repeat": lambda: b.repeat(2, 2),
        "stack": lambda: torch.stack([b, b, b]),
        "permute copy": lambda: b.view(8, 64, 2048).permute(2, 0, 1).contiguous(),
        "embedding fwd+bwd": both(lambda: F.embedding(words, a)),
        "embedding_bag": both(lambda: F.embedding_bag(words.flatten(), a, offsets, mode="sum")),
        "one fill": lambda: b.fill_(1.0),
        "arange": lambda: torch.arange(5000, device=DEVICE, dtype=TORCH[d]),
        "linspace": lambda: torch.linspace(0, 1, 5000, device=DEVICE, dtype=TORCH[d]),
        "eye": lambda: torch.eye(512, device=DEVICE, dtype=TORCH[d]),
        "tril": lambda: b.tril(),
        "normal_": lambda: b.normal_(),
        "bernoulli": lambda: torch.bernoulli(pos.clamp(0, 1)),
        "dropout train": both(lambda: F.dropout(a, 0.5)),
        "alpha dropout": both(lambda: F.alpha_dropout(a, 0.5, True)),
        "softmax long": both(lambda: rand(d, 8, 50000, grad=True).softmax(-1)),
        "softmax dim 0": both(lambda: a.softmax(0)),
        "softmax 4096": both(lambda: a.view(256, 4096).softmax(-1)),
        "log_softmax small": both(lambda: a.view(-1, 32).log_softmax(-1)),
        "cross_entropy wide": both(lambda: F.cross_entropy(a, words.flatten()[:512])),
        "nll 2d": both(lambda: F.nll_loss(a.view(8, 64, 64, 32), words.new_zeros(8, 64, 32))),
        "smooth_l1": both(lambda: F.smooth_l1_loss(a, b)),
        "huber": both(lambda: F.huber_loss(a, b)),
        "cosine": both(lambda: F.cosine_similarity(a, b)),
        "normalize": both(lambda: F.normalize(a)),
        "layer_norm wide": both(lambda: F.layer_norm(a, (2048,))),
        "layer_norm odd": both(lambda: F.layer_norm(a.view(-1, 1, 64 * 64)[:, :, :4093], (4093,))),
        "rms_norm plain": both(lambda: F.rms_norm(a, (2048,))),
        "local_response": both(lambda: F.local_response_norm(a.view(8, 64, 2048), 5)),
        "amp foreach": lambda: torch._foreach_mul_([b, b], 1.0),
        "foreach norm": lambda: torch._foreach_norm([b, b]),
        "foreach add": lambda: torch._foreach_add([b, b], [pos, pos], alpha=0.1),
        "foreach addcdiv": lambda: torch._foreach_addcdiv([b], [b], [pos]),
        "foreach lerp": lambda: torch._foreach_lerp([b], [pos], 0.1),
        "foreach sqrt": lambda: torch._foreach_sqrt([pos]),
        "histc": lambda: torch.histc(b.float()),
        "bucketize": lambda: torch.bucketize(b, pos[0].sort().values),
        "grid_sample": both(
            lambda: F.grid_sample(
                a.view(4, 4, 256, 256), rand(d, 4, 64, 64, 2), align_corners=False
            )
        ),
        "trapezoid": lambda: torch.trapezoid(b),
        "diff": lambda: b.diff(),
        "nan_to_num": lambda: b.nan_to_num(),
        "unscale": lambda: torch._amp_foreach_non_finite_check_and_unscale_(
            [b], torch.zeros(1, device=DEVICE), torch.ones(1, device=DEVICE)
        ),
    }
    for name, op in ops.items():
        yield Case(name, "pointwise", d, op)
    x = rand(d, 4, 32, 16, 24, grad=True)
    images: dict[str, Callable[[], Any]] = {
        "max_pool 3x3": lambda: F.max_pool2d(x, 3, 2, 1),
        "adaptive max": lambda: F.adaptive_max_pool2d(x, 4),
        "adaptive avg 7": lambda: F.adaptive_avg_pool2d(x, 7),
        "bicubic": lambda: F.interpolate(x, scale_factor=2, mode="bicubic"),
        "bilinear aa": lambda: F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True),
        "area": lambda: F.interpolate(x, scale_factor=0.5, mode="area"),
        "replicate": lambda: F.pad(x, (1, 1, 1, 1), mode="replicate"),
        "circular": lambda: F.pad(x, (1, 1, 1, 1), mode="circular"),
        "pixel_shuffle": lambda: F.pixel_shuffle(x, 2),
        "instance_norm": lambda: F.instance_norm(x),
        "fold": lambda: F.fold(F.unfold(x, 3, padding=1), (16, 24), 3, padding=1),
        "prelu": lambda: F.prelu(x, rand(d, 32)),
        "max_pool3d": lambda: F.max_pool3d(x[:, :, None], (1, 2, 2)),
        "avg_pool3d": lambda: F.avg_pool3d(x[:, :, None], (1, 2, 2)),
        "max_pool1d": lambda: F.max_pool1d(x[:, :, 0], 2),
        "lp_pool": lambda: F.lp_pool2d(x.abs() + 1, 2, 2),
        "trilinear": lambda: F.interpolate(x[:, :, None], scale_factor=2, mode="trilinear"),
        "linear 1d": lambda: F.interpolate(x[:, :, 0], scale_factor=2, mode="linear"),
        "group_norm 32": lambda: F.group_norm(x, 32),
    }
    for name, op in images.items():
        yield Case(name, "pointwise", d, both(op))


def training(d: str) -> Iterator[Case]:
    for kind in ("RMSprop", "Adagrad", "Adadelta", "NAdam", "RAdam", "Adamax", "Lion", "Muon"):
        make = getattr(torch.optim, kind, None)
        if make is None:
            continue
        p = [rand(d, 256, 256, grad=True) for _ in range(3)]
        for one in p:
            one.grad = torch.randn_like(one)
        yield Case(f"{kind}", "pointwise", d, make(p, lr=1e-3).step)
    x = rand(d, 8, 64, 128, grad=True)
    for name, cell in (("gru", nn.GRU), ("rnn", nn.RNN), ("lstm", nn.LSTM)):
        net = cell(128, 256, num_layers=2, batch_first=True, bidirectional=True, device=DEVICE)
        net = net.to(TORCH[d])
        yield Case(f"{name} two ways", "rnn", d, both(lambda net=net: net(x)[0]))
    cell = nn.LSTMCell(128, 64, device=DEVICE, dtype=TORCH[d])
    yield Case("lstm cell", "rnn", d, both(lambda: cell(x[:, 0])[0]))


def special() -> Iterator[Case]:
    f8 = {t: rand("fp32", 512, 512).to(t) for t in (torch.float8_e4m3fn, torch.float8_e5m2)}
    e4, e5 = f8.values()
    one, column = torch.ones((), device=DEVICE), torch.ones(512, 1, device=DEVICE)
    for name, call in (
        ("e4m3 to fp32", lambda: torch._scaled_mm(e4, e4.t(), one, one, out_dtype=torch.float32)),
        ("e5m2 e4m3", lambda: torch._scaled_mm(e5, e4.t(), one, one, out_dtype=torch.bfloat16)),
        (
            "rowwise",
            lambda: torch._scaled_mm(e4, e4.t(), column, column.t(), out_dtype=torch.bfloat16),
        ),
        (
            "fast accumulation",
            lambda: torch._scaled_mm(
                e4, e4.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True
            ),
        ),
    ):
        yield Case(f"scaled_mm {name}", "matmul", "fp8", call, 2.0 * 512**3)
    for m, k, n in ((32, 64, 64), (4096, 4096, 4096), (100, 96, 200)):
        a = torch.randint(-100, 100, (m, k), device=DEVICE, dtype=torch.int8)
        b = torch.randint(-100, 100, (n, k), device=DEVICE, dtype=torch.int8).t()
        yield Case(f"int_mm {m}", "matmul", "int8", lambda a=a, b=b: torch._int_mm(a, b))
    for d in ("bf16", "fp16", "fp32"):
        for t in f8:
            x = rand(d, 512, 512)
            yield Case(f"cast {d} to {t}", "cast", "mixed", lambda x=x, t=t: x.to(t))
            y = x.to(t)
            yield Case(f"cast {t} to {d}", "cast", "mixed", lambda y=y, d=d: y.to(TORCH[d]))
    ints = torch.randint(0, 9, (512, 512), device=DEVICE)
    for name, call in (
        ("add", lambda: ints + 1),
        ("sum", lambda: ints.sum()),
        ("sort", lambda: ints.sort()),
        ("to bool", lambda: ints.bool()),
        ("cumsum", lambda: ints.cumsum(0)),
        ("bincount", lambda: ints.flatten().bincount()),
        ("nonzero", lambda: ints.nonzero()),
    ):
        yield Case(f"integers {name}", "pointwise", "unknown", call)
    for d in ("bf16", "fp16", "fp32", "fp64"):
        x = rand(d, 512, 512)
        yield Case(f"to integers {d}", "pointwise", "unknown", lambda x=x: x.long())
        yield Case(f"from integers {d}", "pointwise", "unknown", lambda d=d: ints.to(TORCH[d]))
    for d in ("fp32", "fp64"):
        x = rand(d, 64, 64)
        good = x @ x.t() + 100 * torch.eye(64, device=DEVICE, dtype=TORCH[d])
        for name, call in (
            ("svd", lambda x=x: torch.linalg.svd(x)),
            ("qr", lambda x=x: torch.linalg.qr(x)),
            ("solve", lambda x=good: torch.linalg.solve(x, x)),
            ("inv", lambda x=good: torch.linalg.inv(x)),
            ("eigh", lambda x=good: torch.linalg.eigh(x)),
            ("det", lambda x=good: torch.linalg.det(x)),
            ("triangular", lambda x=good: torch.linalg.solve_triangular(x, x, upper=True)),
        ):
            yield Case(f"{name} {d}", "other", d, call)
        for shape in ((1024,), (64, 1000), (8, 127, 33)):
            y = rand(d, *shape)
            yield Case(f"fft {shape} {d}", "other", "unknown", lambda y=y: torch.fft.fftn(y))
            yield Case(f"rfft {shape} {d}", "other", "unknown", lambda y=y: torch.fft.rfft(y))
        s = (rand(d, 512, 512) * (rand(d, 512, 512) > 1)).to_sparse_csr()
        yield Case(f"sparse mm {d}", "matmul", d, applied(torch.matmul, s, rand(d, 512, 64)))
    for d in ("bf16", "fp16"):
        weights, rows = rand(d, 4, 256, 256), rand(d, 256, 256)
        ends = torch.tensor([32, 64, 128, 256], device=DEVICE, dtype=torch.int32)
        yield Case(
            f"grouped_mm {d}",
            "matmul",
            d,
            lambda r=rows, w=weights, e=ends: torch._grouped_mm(r, w, e),
        )


def compiled(d: str) -> Iterator[Case]:
    from torch.nn.attention.flex_attention import flex_attention

    x, w = rand(d, 512, 1024), rand(d, 1024, 1024)
    net = nn.Sequential(
        *(nn.Linear(1024, 1024), nn.LayerNorm(1024), nn.GELU(), nn.Dropout(0.1)),
        nn.Linear(1024, 64),
    ).to(DEVICE, TORCH[d])
    whole = torch.compile(net)
    z = rand(d, 512, 1024, grad=True)
    yield Case("compiled net fwd+bwd", "compiled", d, both(lambda: whole(z)))
    small = torch.compile(lambda x: (x.softmax(-1).cumsum(-1), x.sort(-1).values, x.var(0)))
    yield Case("compiled reductions", "compiled", d, lambda: small(x))
    if d != "fp64":
        q, k, v = (rand(d, 2, 4, 256, 64, grad=True) for _ in range(3))
        flex = torch.compile(flex_attention)
        yield Case("flex attention", "compiled", d, both(lambda: flex(q, k, v)))
    tuned = torch.compile(lambda x, w: F.gelu(x @ w + 1), mode="max-autotune-no-cudagraphs")
    yield Case("compiled epilogue, autotuned", "compiled", d, lambda: tuned(x, w))


def cases() -> Iterator[tuple[str, Iterator[Case]]]:
    yield "more special", special()
    for d in ("bf16", "fp16", "tf32", "fp32", "fp64"):
        for maker in (products, convolutions, attention, pointwise, training):
            if d == "tf32" and maker in (pointwise, training):
                continue
            yield f"more {maker.__name__} {d}", maker(d)
    for d in ("bf16", "fp32", "fp64", "fp16"):
        yield f"more compiled {d}", compiled(d)
