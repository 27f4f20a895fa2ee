"""Loops without a fault, in the many ways that people write them. None may be found at fault."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from loop_models import MODELS, Block, ConvNet, Discriminator, Generator, Perceptron, Transformer
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

STEPS = 6
LOOPS: dict[str, Callable[[], None]] = {}


def loop(function: Callable[[], None]) -> Callable[[], None]:
    LOOPS[function.__name__.replace("_", " ")] = function
    return function


def batches(kind=Perceptron, steps=STEPS):
    return [kind.batch() for _ in range(steps)]


def train(model, optimizer, clear, data=None, between=lambda: None):
    """The usual loop, `clear` before each backward and `between` after it."""
    for x, y in data or batches(type(model)):
        clear()
        F.cross_entropy(model(x), y).backward()
        between()
        optimizer.step()


def usual(kind=Perceptron, make=torch.optim.AdamW, **options):
    model = kind()
    return model, make(model.parameters(), lr=1e-2, **options)


@loop
def zeroed_in_place():
    model, optimizer = usual()
    train(model, optimizer, lambda: optimizer.zero_grad(set_to_none=False))


@loop
def cleared_at_the_end():
    model, optimizer = usual()
    for x, y in batches():
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


@loop
def cleared_by_the_model():
    model, optimizer = usual(ConvNet)
    train(model, optimizer, model.zero_grad)


@loop
def set_to_None_by_hand():
    model, optimizer = usual()

    def clear():
        for param in model.parameters():
            param.grad = None

    train(model, optimizer, clear)


@loop
def zeroed_through_data():
    model, optimizer = usual()

    def clear():
        for param in model.parameters():
            if param.grad is not None:
                param.grad.data.zero_()

    train(model, optimizer, clear)


@loop
def zeroed_by_numpy():
    model, optimizer = usual()

    def clear():
        for param in model.parameters():
            if param.grad is not None:
                param.grad.numpy()[...] = 0

    train(model, optimizer, clear)


@loop
def gradient_accumulation():
    model, optimizer = usual()
    for n, (x, y) in enumerate(batches(steps=18)):
        (F.cross_entropy(model(x), y) / 3).backward()
        if n % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()


@loop
def gradient_accumulation_in_place():
    model, optimizer = usual()
    for n, (x, y) in enumerate(batches(steps=12)):
        (F.cross_entropy(model(x), y) / 2).backward()
        if n % 2:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)


@loop
def clipped():
    model, optimizer = usual()

    def clip():
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        nn.utils.clip_grad_value_(model.parameters(), 0.01)

    train(model, optimizer, optimizer.zero_grad, between=clip)


def _scaled(fused: bool, first: float) -> None:
    model, optimizer = usual(fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=first)
    for x, y in batches(steps=10):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


@loop
def float16_with_a_scaler():
    _scaled(False, 1024.0)


@loop
def float16_scaler_that_looks_for_its_scale():
    _scaled(False, 2.0**24)


@loop
def float16_fused_scaler_that_looks_for_its_scale():
    _scaled(True, 2.0**24)


@loop
def bfloat16_autocast():
    model, optimizer = usual(Transformer)
    for x, y in batches(Transformer):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()


@loop
def LBFGS_with_a_closure():
    model, optimizer = usual(make=torch.optim.LBFGS, max_iter=4)
    x, y = Perceptron.batch()
    model.drop.p = 0.0

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)


@loop
def SGD_with_a_closure():
    model, optimizer = usual(make=torch.optim.SGD)
    for x, y in batches():

        def closure(x=x, y=y):
            optimizer.zero_grad(set_to_none=False)
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        optimizer.step(closure)


@loop
def frozen_backbone():
    model = ConvNet()
    for part in (model.conv1, model.norm1, model.conv2, model.norm2):
        part.requires_grad_(False)
        part.eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    train(model, optimizer, optimizer.zero_grad)


@loop
def frozen_batch_statistics():
    model, optimizer = usual(ConvNet)
    model.norm1.eval()
    model.norm2.eval()
    train(model, optimizer, optimizer.zero_grad)


@loop
def parts_used_now_and_then():
    model, optimizer = usual()
    for n, (x, y) in enumerate(batches(steps=9)):
        optimizer.zero_grad(set_to_none=n % 2 == 0)
        h = torch.tanh(model.one(x))
        h = model.two(h) if n % 3 == 1 else h
        F.cross_entropy(model.out(h), y).backward()
        optimizer.step()


@loop
def a_layer_never_used():
    model = Perceptron()
    model.spare = nn.Linear(3, 3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    train(model, optimizer, optimizer.zero_grad)


@loop
def optimizers_that_share_parameters():
    model = Perceptron()
    first = torch.optim.SGD(model.parameters(), lr=1e-2)
    second = torch.optim.SGD(model.out.parameters(), lr=1e-2)
    for x, y in batches():
        first.zero_grad()
        F.cross_entropy(model(x), y).backward()
        first.step()
        second.step()


@loop
def optimizers_in_turn():
    model = Perceptron()
    pair = [
        torch.optim.Adam([*model.one.parameters(), *model.two.parameters()], lr=1e-2),
        torch.optim.SGD(model.out.parameters(), lr=1e-2),
    ]
    for n, (x, y) in enumerate(batches(steps=12)):
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()
        pair[n % 2].step()


@loop
def fused_optimizer():
    model, optimizer = usual(fused=True)
    train(model, optimizer, lambda: optimizer.zero_grad(set_to_none=False))


@loop
def one_by_one_optimizer():
    model, optimizer = usual(foreach=False)
    train(model, optimizer, lambda: optimizer.zero_grad(set_to_none=False))


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.embed, self.block, self.head = nn.Embedding(11, 16), Block(), nn.Linear(16, 4)
        self.reentrant = reentrant

    def forward(self, x):
        x = checkpoint(self.block, self.embed(x), use_reentrant=self.reentrant)
        return self.head(x.mean(1))


def _checkpointed(reentrant: bool) -> None:
    model = Checkpointed(reentrant)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    train(model, optimizer, optimizer.zero_grad, batches(Transformer))


@loop
def activation_checkpointing():
    _checkpointed(False)


@loop
def reentrant_checkpointing():
    _checkpointed(True)


@loop
def gradient_penalty():
    model, optimizer = usual(Discriminator)
    for _ in range(STEPS):
        x = torch.randn(8, 6, requires_grad=True)
        optimizer.zero_grad()
        out = model(x)
        (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        (F.softplus(out).mean() + (slope.norm(dim=1) - 1).square().mean()).backward()
        optimizer.step()


@loop
def momentum_teacher():
    student, optimizer = usual(ConvNet)
    teacher = copy.deepcopy(student)
    for x, _ in batches(ConvNet):
        with torch.no_grad():
            target = teacher(x).softmax(-1)
        optimizer.zero_grad()
        F.cross_entropy(student(x), target).backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
                slow.lerp_(fast, 0.1)


@loop
def target_network():
    network, optimizer = usual()
    target = copy.deepcopy(network)
    for n, (x, y) in enumerate(batches(steps=8)):
        value = network(x).gather(1, y[:, None])[:, 0]
        loss = F.smooth_l1_loss(value, target(x).max(1).values.detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if n % 4 == 3:
            target.load_state_dict(network.state_dict())


@loop
def labels_made_by_the_model_itself():
    model, optimizer = usual()
    for x, _ in batches(steps=8):
        with torch.no_grad():
            y = model(x).argmax(-1)
        optimizer.zero_grad()
        F.cross_entropy(model(x + 0.1 * torch.randn_like(x)), y).backward()
        optimizer.step()


@loop
def rows_masked_throughout():
    model, optimizer = usual()
    for x, y in batches():
        scores = torch.full((8, 8), float("-inf"))
        scores[1:, 0] = 1.0
        weights = scores.softmax(-1).nan_to_num(0.0)
        optimizer.zero_grad()
        F.cross_entropy(model(x + weights @ x), y).backward()
        optimizer.step()


@loop
def log_of_zero_behind_a_where():
    model, optimizer = usual()
    for x, y in batches():
        kept = x.clamp(min=0)
        x = torch.where(kept > 0, kept.log(), 0.0)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


@loop
def a_bad_loss_is_skipped():
    model, optimizer = usual()
    for n, (x, y) in enumerate(batches()):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x * (float("nan") if n == 2 else 1.0)), y)
        if not loss.isfinite():
            continue
        loss.backward()
        optimizer.step()


def _in_backward(set_to_none: bool) -> None:
    model = Perceptron()
    own = {p: torch.optim.SGD([p], lr=1e-2) for p in model.parameters()}

    def update(param):
        own[param].step()
        own[param].zero_grad(set_to_none)

    for param in own:
        param.register_post_accumulate_grad_hook(update)
    for x, y in batches():
        F.cross_entropy(model(x), y).backward()


@loop
def updates_inside_backward():
    _in_backward(True)


@loop
def updates_inside_backward_zeroed_in_place():
    _in_backward(False)


@loop
def sharpness_aware():
    model, optimizer = usual(make=torch.optim.SGD)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        with torch.no_grad():
            moves = [0.01 * p.grad for p in model.parameters()]
            for param, move in zip(model.parameters(), moves, strict=True):
                param += move
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        with torch.no_grad():
            for param, move in zip(model.parameters(), moves, strict=True):
                param -= move
        optimizer.step()


@loop
def warm_up_from_zero():
    model, optimizer = usual()
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, max(0, n - 3) / 4))
    for x, y in batches(steps=12):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        schedule.step()


@loop
def unfrozen_later():
    model = Perceptron()
    model.one.requires_grad_(False)
    head = [*model.two.parameters(), *model.out.parameters()]
    optimizer = torch.optim.SGD(head, lr=1e-2)
    for n, (x, y) in enumerate(batches(steps=10)):
        if n == 4:
            model.one.requires_grad_(True)
            optimizer.add_param_group({"params": list(model.one.parameters()), "lr": 1e-3})
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


@loop
def sparse_embedding():
    table, head = nn.Embedding(11, 8, sparse=True), nn.Linear(8, 4)
    pair = [
        torch.optim.SparseAdam(table.parameters(), lr=1e-2),
        torch.optim.Adam(head.parameters(), lr=1e-2),
    ]
    for x, y in batches(Transformer):
        for optimizer in pair:
            optimizer.zero_grad()
        F.cross_entropy(head(table(x).mean(1)), y).backward()
        for optimizer in pair:
            optimizer.step()


@loop
def samples_of_a_generator_in_train_mode():
    maker, judge = Generator(), Discriminator()
    make, decide = (torch.optim.Adam(m.parameters(), lr=1e-2) for m in (maker, judge))
    fixed = torch.randn(8, 4)
    for n in range(STEPS):
        fake = maker(torch.randn(8, 4))
        decide.zero_grad()
        F.softplus(judge(fake.detach())).mean().backward()
        F.softplus(-judge(torch.randn(8, 6))).mean().backward()
        decide.step()
        make.zero_grad()
        F.softplus(-judge(fake)).mean().backward()
        make.step()
        if n % 3 == 2:
            with torch.no_grad():
                maker(fixed)


@loop
def gradients_written_by_hand():
    model, optimizer = usual()
    for param in model.parameters():
        param.grad = torch.zeros_like(param)
    for x, y in batches():
        grads = torch.autograd.grad(F.cross_entropy(model(x), y), list(model.parameters()))
        for param, grad in zip(model.parameters(), grads, strict=True):
            param.grad.copy_(grad)
        optimizer.step()


@loop
def last_layer_kept_still_at_first():
    model, optimizer = usual()
    for n, (x, y) in enumerate(batches(steps=8)):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        if n < 4:
            for param in model.out.parameters():
                param.grad = None
        optimizer.step()


@loop
def float32_copies_of_the_weights():
    model = Perceptron().bfloat16()
    copies = [p.detach().float().requires_grad_() for p in model.parameters()]
    optimizer = torch.optim.SGD(copies, lr=0.1)
    for x, y in batches(steps=8):
        model.zero_grad()
        F.cross_entropy(model(x.bfloat16()).float(), y).backward()
        for master, param in zip(copies, model.parameters(), strict=True):
            master.grad = param.grad.float()
        optimizer.step()
        with torch.no_grad():
            for master, param in zip(copies, model.parameters(), strict=True):
                param.copy_(master)


@loop
def evaluated_in_eval_mode():
    model, optimizer = usual(ConvNet)
    for x, y in batches(ConvNet):
        model.train()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        model.eval()
        with torch.inference_mode():
            model(x).argmax(-1)


@loop
def evaluated_without_no_grad():
    model, optimizer = usual()
    for n, (x, y) in enumerate(batches(steps=8)):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        if n % 3 == 1:
            model.eval()
            F.cross_entropy(model(x), y).item()
            model.train()


@loop
def adversarial_examples_made_in_eval_mode():
    model, optimizer = usual()
    for x, y in batches():
        model.eval()
        x = x.requires_grad_()
        F.cross_entropy(model(x), y).backward()
        x = (x + 0.1 * x.grad.sign()).detach()
        model.train()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


@loop
def inner_loops():
    model, optimizer = usual(make=torch.optim.SGD)
    for x, y in batches():
        inner = copy.deepcopy(model)
        small = torch.optim.SGD(inner.parameters(), lr=0.1)
        for _ in range(2):
            small.zero_grad()
            F.cross_entropy(inner(x), y).backward()
            small.step()
        optimizer.zero_grad()
        for outer, adapted in zip(model.parameters(), inner.parameters(), strict=True):
            outer.grad = outer.detach() - adapted.detach()
        optimizer.step()


@loop
def many_models_in_turn():
    """Ids of objects that are gone are used again."""
    x, y = Perceptron.batch()
    for _ in range(20):
        model, optimizer = usual()
        train(model, optimizer, optimizer.zero_grad, [(x, y), *batches(steps=2)])


class LowRank(nn.Module):
    """A fixed layer with a low-rank addition that starts at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.fixed = nn.Linear(12, 4).requires_grad_(False)
        self.down, self.up = nn.Linear(12, 2, bias=False), nn.Linear(2, 4, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.fixed(x) + self.up(self.down(x))


@loop
def low_rank_addition_from_zero():
    model = LowRank()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    train(model, optimizer, optimizer.zero_grad, batches())


@loop
def bias_before_a_normalisation():
    torch.manual_seed(3)
    model, optimizer = usual(ConvNet, torch.optim.SGD)
    train(model, optimizer, optimizer.zero_grad, batches(ConvNet, 12))


@loop
def tied_weights():
    table, body = nn.Embedding(11, 16), nn.Linear(16, 16)
    head = nn.Linear(16, 11, bias=False)
    head.weight = table.weight
    model = nn.Sequential(table, body, head)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for x, _ in batches(Transformer):
        optimizer.zero_grad()
        F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten()).backward()
        optimizer.step()


@loop
def weight_norm():
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(12, 8)), nn.Linear(8, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    train(model, optimizer, optimizer.zero_grad, batches())


@loop
def functional_call():
    model = Perceptron()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for x, y in batches():
        optimizer.zero_grad()
        out = torch.func.functional_call(model, dict(model.named_parameters()), (x,))
        F.cross_entropy(out, y).backward()
        optimizer.step()


@loop
def per_sample_gradients():
    model, optimizer = usual(make=torch.optim.SGD)
    model.drop.p = 0.0
    params = dict(model.named_parameters())

    def loss(params, x, y):
        out = torch.func.functional_call(model, params, (x[None],))
        return F.cross_entropy(out, y[None])

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    for x, y in batches():
        held = {name: p.detach() for name, p in params.items()}
        for name, grad in each(held, x, y).items():
            params[name].grad = grad.mean(0)
        optimizer.step()


@loop
def complex_parameters():
    weight = nn.Parameter(torch.randn(12, 4, dtype=torch.complex64))
    optimizer = torch.optim.Adam([weight], lr=1e-2)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy((x.to(torch.complex64) @ weight).abs(), y).backward()
        optimizer.step()


@loop
def gradients_kept_in_a_graph():
    model, optimizer = usual(Discriminator)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of the reference cycle
        for _ in range(STEPS):
            optimizer.zero_grad()
            F.softplus(model(torch.randn(8, 6))).mean().backward(create_graph=True)
            optimizer.step()


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.t() * 2

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight * 2, grad.t() @ x * 2


class WithFunction(Perceptron):
    def forward(self, x):
        return self.out(self.drop(torch.tanh(Doubled.apply(self.one(x), self.two.weight))))


@loop
def function_of_ones_own():
    model = WithFunction()
    model.two.bias = None
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    train(model, optimizer, optimizer.zero_grad, batches())


def _replicated(set_to_none: bool) -> None:
    """DistributedDataParallel with one process; its gradients are views of its buckets."""
    import tempfile

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", f"file://{folder}/store", rank=0, world_size=1)
        try:
            model = Perceptron()
            optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
            replica = DistributedDataParallel(model, gradient_as_bucket_view=True)
            train(replica, optimizer, lambda: optimizer.zero_grad(set_to_none), batches())
        finally:
            dist.destroy_process_group()


@loop
def bucket_views():
    _replicated(True)


@loop
def bucket_views_zeroed_in_place():
    _replicated(False)


def _every_optimizer() -> None:
    """Each optimizer of torch with its defaults."""
    from torch.optim import Optimizer

    def make(kind: type) -> Callable[[], None]:
        def one() -> None:
            model = Perceptron()
            sparse = kind.__name__ == "SparseAdam"
            if sparse:
                model = nn.Sequential(nn.Embedding(11, 4, sparse=True), nn.Flatten())
            params = model.parameters()
            if kind.__name__ == "Muon":  # matrices only
                params = [p.requires_grad_(p.dim() == 2) for p in params if p.dim() == 2]
                for param in model.parameters():
                    param.requires_grad_(param.dim() == 2)
            optimizer = kind(params)
            for x, y in batches(Transformer if sparse else Perceptron):

                def closure(x=x, y=y):
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model(x), y)
                    loss.backward()
                    return loss

                if kind.__name__ == "LBFGS":
                    optimizer.step(closure)
                else:
                    closure()
                    optimizer.step()

        return one

    for name, kind in vars(torch.optim).items():
        if isinstance(kind, type) and issubclass(kind, Optimizer) and kind is not Optimizer:
            LOOPS[f"torch.optim.{name}"] = make(kind)


_every_optimizer()

for _kind in MODELS:

    def _plain(kind=_kind) -> None:
        model, optimizer = usual(MODELS[kind])
        train(model, optimizer, optimizer.zero_grad)

    LOOPS[f"plain {_kind}"] = _plain
