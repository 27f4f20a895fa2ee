"""Norms, softmax, losses, attention, embeddings, pooling: the noise of the formula is the measure.

Each function computes the outputs in float64 from float64 inputs; `truth.py` runs it again with its
inputs moved by a few units of rounding, and takes the change for what rounding may do.
Legend of shapes: N batch, C channels, G groups, D row length, L query and S key length.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from reefwatch.gather.dtypes import short
from reefwatch.gather.numerics.formula import Inputs, Truth, formula, spread
from reefwatch.measure.rounding import UNIT, growth

MOST = 1 << 21
"""Elements of an input up to which the whole is computed again; then rows or channels are drawn."""


class Noisy:
    """A function of float64 arrays whose own noise says how far the result may be off."""

    def __init__(self, op: Inputs, inputs: list[Any], function: Any) -> None:
        self.op, self.inputs, self.function = op, inputs, function

    def truths(
        self,
        got: list[Any],
        *,
        length: int,
        axis: int | None = 0,
        share: float = 1.0,
        least: list[Any] | None = None,
    ) -> list[Truth]:
        """`got`: the run's outputs, None where one is not judged; `length` is summed over.

        `least`: what each output may be off in any case, where a formula says so.
        """
        from reefwatch.gather.numerics.noise import allowed, factor_of

        op = self.op
        values = self.function(*self.inputs)
        bounds = allowed(op, self.function, self.inputs, values, length, op.kinds(len(values)))
        if least is not None:
            bounds = [bound + more for bound, more in zip(bounds, least, strict=True)]
        bias = factor_of(op, length)
        several = [value.ndim > 1 for value in values]
        return [
            Truth(
                value,
                have,
                bound,
                axis=axis if several[place] else None,
                output=place,
                bias=bias,
                share=share,
            )
            for place, (value, have, bound) in enumerate(zip(values, got, bounds, strict=True))
            if have is not None
        ]


def _rows(op: Inputs, x: Any, width: int) -> list[int]:
    """Which rows of (rows, width) are judged."""
    return spread(x.numel() // max(width, 1), max(8, MOST // max(width, 1)), op.turn)


def _channels(op: Inputs, x: Any) -> list[int]:
    """Which channels of (N, C, ...) are judged."""
    each = x.numel() // max(x.shape[1], 1)
    return spread(x.shape[1], max(2, MOST // max(each, 1)), op.turn)


@formula("aten._softmax", "aten._log_softmax", "aten._safe_softmax")
def softmax(op: Inputs) -> list[Truth]:
    xp, x, out = op.xp, op.args[0], op.outs[0]
    axis = op.args[1] % max(x.dim(), 1)
    x2, out2 = x.movedim(axis, -1), out.movedim(axis, -1)
    width = x2.shape[-1]
    x2, out2 = x2.reshape(-1, width), out2.reshape(-1, width)
    rows = _rows(op, x2, width)
    logs = "log" in op.name

    def function(a: Any) -> list[Any]:
        top = a.max(-1, keepdims=True)
        top = xp.where(xp.isfinite(top), top, 0.0)
        if logs:
            return [a - top - xp.log(xp.exp(a - top).sum(-1, keepdims=True))]
        power = xp.exp(a - top)
        whole = power.sum(-1, keepdims=True)
        return [
            xp.where(
                whole > 0,
                power / xp.where(whole > 0, whole, 1.0),
                0.0 if "safe" in op.name else xp.nan,
            )
        ]

    share = len(rows) * width / max(x.numel(), 1)
    return Noisy(op, [op.f64(x2[rows])], function).truths(
        [op.f64(out2[rows])], length=width, share=share
    )


@formula("aten._softmax_backward_data", "aten._log_softmax_backward_data")
def softmax_backward(op: Inputs) -> list[Truth]:
    grad, y, out = op.args[0], op.args[1], op.outs[0]
    axis = op.args[2] % max(y.dim(), 1)
    grad, y, out = (t.movedim(axis, -1) for t in (grad, y, out))
    width = y.shape[-1]
    rows = _rows(op, y, width)
    g, p, got = (op.f64(t.reshape(-1, width)[rows]) for t in (grad, y, out))

    def function(a: Any, b: Any) -> list[Any]:
        if "log" in op.name:
            return [a - op.xp.exp(b) * a.sum(-1, keepdims=True)]
        return [b * (a - (a * b).sum(-1, keepdims=True))]

    share = len(rows) * width / max(y.numel(), 1)
    return Noisy(op, [g, p], function).truths([got], length=width, share=share)


@formula("aten.native_layer_norm", "aten._fused_rms_norm", "aten.rms_norm")
def layer_norm(op: Inputs) -> list[Truth] | None:
    """Outputs y, mean, rstd (rms: y, rstd)."""
    xp, x, shape = op.xp, op.args[0], op.args[1]
    weight = op.get(2, "weight")
    rms = "rms" in op.name
    bias = None if rms else op.get(3, "bias")
    eps = op.args[3] if rms and len(op.args) > 3 else op.args[4] if not rms else None
    if eps is None:
        eps = 2.0**-23 if op.compute == "f32" else 2.0**-52
    width = math.prod(shape)
    rows = _rows(op, x, width)
    inputs = [op.f64(x.reshape(-1, width)[rows])]
    inputs += [op.f64(t.reshape(-1)) for t in (weight, bias) if t is not None]

    def function(a: Any, *rest: Any) -> list[Any]:
        mean = 0.0 if rms else a.mean(-1, keepdims=True)
        scale = 1 / xp.sqrt(((a - mean) ** 2).mean(-1, keepdims=True) + eps)
        y = (a - mean) * scale
        if weight is not None:
            y = y * rest[0]
        if bias is not None:
            y = y + rest[-1]
        told = [y] if rms else [y, xp.broadcast_to(mean, scale.shape)]
        return [*told, scale]

    got: list[Any] = [op.f64(op.outs[0].reshape(-1, width)[rows])]
    got += [op.f64(t.reshape(-1, 1)[rows]) for t in op.outs[1:]]
    share = len(rows) * width / max(x.numel(), 1)
    made = Noisy(op, inputs, function)
    return (
        made.truths(got, length=width, share=share) if len(got) == len(function(*inputs)) else None
    )


@formula("aten.native_layer_norm_backward")
def layer_norm_backward(op: Inputs) -> list[Truth]:
    grad, x, shape, mean, rstd, weight = op.args[:6]
    width = math.prod(shape)
    mask = op.args[7]
    inputs = [op.f64(t.reshape(-1, width)) for t in (grad, x)]
    inputs += [op.f64(mean.reshape(-1, 1)), op.f64(rstd.reshape(-1, 1))]
    if weight is not None:
        inputs.append(op.f64(weight.reshape(1, -1)))

    def function(g: Any, a: Any, m: Any, r: Any, *w: Any) -> list[Any]:
        normed = (a - m) * r
        scaled = g * w[0] if w else g
        inner = scaled - scaled.mean(-1, keepdims=True)
        dx = r * (inner - normed * (scaled * normed).mean(-1, keepdims=True))
        return [dx, (g * normed).sum(0), g.sum(0)]

    got = [
        None
        if not want or out is None
        else op.f64(out.reshape(-1, width) if place == 0 else out.reshape(-1))
        for place, (want, out) in enumerate(zip(mask, op.outs, strict=True))
    ]
    told = Noisy(op, inputs, function).truths(got, length=max(width, inputs[0].shape[0]))
    return _summed_narrow(op, told, inputs, grad)


def _summed_narrow(op: Inputs, told: list[Truth], inputs: list[Any], grad: Any) -> list[Truth]:
    """Torch's CPU kernel adds the gradients of weight and bias up in the dtype of the rows."""
    narrow = short(grad.dtype)
    if narrow not in ("bf16", "f16") or grad.device.type != "cpu":
        return told
    g, a, m, r = inputs[:4]
    rows = g.shape[0]
    sums = {1: op.xp.abs(g * (a - m) * r).sum(0), 2: op.xp.abs(g).sum(0)}
    return [
        replace(one, allowed=one.allowed + sums[one.output] * growth(rows + 2, narrow, 8.0))
        if one.output in sums
        else one
        for one in told
    ]


@formula(
    "aten.native_batch_norm",
    "aten._native_batch_norm_legit",
    "aten.cudnn_batch_norm",
    "aten.miopen_batch_norm",
    "aten._batch_norm_with_update",
    "aten._native_batch_norm_legit_functional",
    "aten._batch_norm_impl_index",
)
def batch_norm(op: Inputs) -> list[Truth] | None:
    """Outputs y, and in training the mean and 1/std of the batch."""
    xp, x, weight, bias = op.xp, op.args[0], op.args[1], op.args[2]
    bare = len(op.args) > 3 and isinstance(op.args[3], bool)  # .no_stats has no running averages
    library = "cudnn" in op.name or "miopen" in op.name
    if "with_update" in op.name:
        training, eps, running = True, op.args[6], op.args[3:5]
    else:
        at = 3 if bare else 5
        training, eps = op.args[at], op.args[at + 2]
        running = () if bare else op.args[3:5]
    chosen = _channels(op, x)
    axes = (0, *range(2, x.dim()))
    shape = (1, -1, *([1] * (x.dim() - 2)))
    inputs = [op.f64(x[:, chosen])]
    inputs += [op.f64(t[chosen]).reshape(shape) for t in (weight, bias) if t is not None]
    if not training:
        inputs += [op.f64(t[chosen]).reshape(shape) for t in running]
    stats = [op.outs[place] for place in (1, 2)] if training else []
    # all in 16 bits the processor rounds both before it uses them; they are judged by themselves
    rounded = len(stats) == 2 and all(
        t is not None and short(t.dtype) in ("bf16", "f16") and t.numel() == x.shape[1]
        for t in stats
    )
    if rounded:
        inputs += [op.f64(t[chosen]).reshape(shape) for t in stats]

    def function(a: Any, *rest: Any) -> list[Any]:
        if training:
            mean = a.mean(axes, keepdims=True)
            variance = ((a - mean) ** 2).mean(axes, keepdims=True)
        else:
            mean, variance = rest[-2:]
        scale = 1 / xp.sqrt(variance + eps)
        y = (a - rest[-2]) * rest[-1] if rounded else (a - mean) * scale
        y = y * rest[0] if weight is not None else y
        y = y + rest[weight is not None] if bias is not None else y
        return [y, mean.reshape(-1), scale.reshape(-1)] if training else [y]

    got: list[Any] = [op.f64(op.outs[0][:, chosen])]
    if training:
        got += [
            None if t is None or t.numel() == 0 or library else op.f64(t[chosen]) for t in stats
        ]
    share = len(chosen) / max(x.shape[1], 1)
    length = x.numel() // max(x.shape[1], 1)
    if not rounded:
        return Noisy(op, inputs, function).truths(got, length=length, axis=1, share=share)
    first = [got[0], None, None]
    told = Noisy(op, inputs, function).truths(first, length=length, axis=1, share=share)
    narrow = replace(op, extra={**op.extra, "inner": op.dtype})
    return told + Noisy(narrow, inputs, function).truths([None, *got[1:]], length=length)


@formula(
    "aten.native_batch_norm_backward",
    "aten.cudnn_batch_norm_backward",
    "aten.miopen_batch_norm_backward",
    "aten.batch_norm_backward",
)
def batch_norm_backward(op: Inputs) -> list[Truth] | None:
    """Outputs grad of x, weight, bias; from the saved mean and 1/std where they were given."""
    xp = op.xp
    kept = op.args[5:7]  # of the forward: where terms cancel, their rounding is what is left
    if "native" in op.name or ".batch_norm_backward" in op.name:
        grad, x, weight, training, eps = op.args[0], op.args[1], op.args[2], op.args[7], op.args[8]
        averages, mask = op.args[3:5], op.args[9]
    else:
        x, grad, weight, training, eps, mask = *op.args[:3], True, op.args[7], [True] * 3
        averages = (None, None)
    saved = training and all(t is not None and t.numel() == x.shape[1] for t in kept)
    chosen = _channels(op, x)
    axes, shape = (0, *range(2, x.dim())), (1, -1, *([1] * (x.dim() - 2)))
    inputs = [op.f64(grad[:, chosen]), op.f64(x[:, chosen])]
    if weight is not None:
        inputs.append(op.f64(weight[chosen]).reshape(shape))
    if not training or saved:
        inputs += [op.f64(t[chosen]).reshape(shape) for t in (kept if saved else averages)]

    def function(g: Any, a: Any, *rest: Any) -> list[Any]:
        if saved:
            mean, scale = rest[-2:]
        elif training:
            mean = a.mean(axes, keepdims=True)
            scale = 1 / xp.sqrt(((a - mean) ** 2).mean(axes, keepdims=True) + eps)
        else:
            mean, scale = rest[-2], 1 / xp.sqrt(rest[-1] + eps)
        normed = (a - mean) * scale
        bias, slope = g.sum(axes, keepdims=True), (g * normed).sum(axes, keepdims=True)
        count = a.size / a.shape[1]
        inner = g - bias / count - normed * slope / count if training else g
        dx = inner * scale * (rest[0] if weight is not None else 1.0)
        return [dx, slope.reshape(-1), bias.reshape(-1)]

    got = [
        None
        if not want or out is None or out.numel() == 0
        else op.f64(out[:, chosen] if place == 0 else out[chosen])
        for place, (want, out) in enumerate(zip(mask, op.outs[:3], strict=True))
    ]
    length = x.numel() // max(x.shape[1], 1)
    return Noisy(op, inputs, function).truths(
        got, length=length, axis=1, share=len(chosen) / x.shape[1]
    )


@formula("aten.native_group_norm")
def group_norm(op: Inputs) -> list[Truth]:
    """Outputs y (N, C, ...), mean and 1/std (N, G)."""
    xp, (x, weight, bias, count, channels, _, groups, eps) = op.xp, op.args[:8]
    inputs = [op.f64(x).reshape(count, groups, -1)]
    inputs += [op.f64(t).reshape(1, channels, 1) for t in (weight, bias) if t is not None]

    def function(a: Any, *rest: Any) -> list[Any]:
        mean = a.mean(-1, keepdims=True)
        scale = 1 / xp.sqrt(((a - mean) ** 2).mean(-1, keepdims=True) + eps)
        y = ((a - mean) * scale).reshape(count, channels, -1)
        y = y * rest[0] if weight is not None else y
        y = y + rest[-1] if bias is not None else y
        return [y, mean[..., 0], scale[..., 0]]

    got = [op.f64(op.outs[0]).reshape(count, channels, -1), *(op.f64(t) for t in op.outs[1:3])]
    return Noisy(op, inputs, function).truths(got, length=inputs[0].shape[-1], axis=1)


@formula("aten.native_group_norm_backward")
def group_norm_backward(op: Inputs) -> list[Truth]:
    grad, x, mean, rstd, weight, count, channels, _, groups, mask = op.args[:10]
    each = channels // groups
    inputs = [op.f64(t).reshape(count, groups, each, -1) for t in (grad, x)]
    inputs += [op.f64(t).reshape(count, groups, 1, 1) for t in (mean, rstd)]
    if weight is not None:
        inputs.append(op.f64(weight).reshape(1, groups, each, 1))

    def function(g: Any, a: Any, m: Any, r: Any, *w: Any) -> list[Any]:
        normed = (a - m) * r
        scaled = g * w[0] if w else g
        inner = scaled - scaled.mean((2, 3), keepdims=True)
        dx = r * (inner - normed * (scaled * normed).mean((2, 3), keepdims=True))
        return [
            dx.reshape(count, channels, -1),
            (g * normed).sum((0, 3)).reshape(-1),
            g.sum((0, 3)).reshape(-1),
        ]

    shapes = [(count, channels, -1), (-1,), (-1,)]
    got = [
        None if not want or out is None else op.f64(out).reshape(shape)
        for want, out, shape in zip(mask, op.outs, shapes, strict=True)
    ]
    return Noisy(op, inputs, function).truths(got, length=inputs[0][0, 0].size, axis=1)


@formula(
    "aten._scaled_dot_product_flash_attention_for_cpu",
    "aten._scaled_dot_product_flash_attention",
    "aten._scaled_dot_product_efficient_attention",
    "aten._scaled_dot_product_attention_math",
    "aten._scaled_dot_product_cudnn_attention",
    "aten._scaled_dot_product_fused_attention_overrideable",
)
def attention(op: Inputs) -> list[Truth] | None:
    """Q (N, H, L, D), k and v (N, H, S, D); the output alone is judged, dropout is not."""
    q, k, v = op.args[:3]
    named = op.name.split(".")[1]
    if named.endswith("for_cpu"):
        dropout, causal, mask = (
            op.get(3, "dropout_p", 0.0),
            op.get(4, "is_causal", False),
            op.kwargs.get("attn_mask"),
        )
    elif named.endswith(("efficient_attention", "cudnn_attention")):
        mask, dropout, causal = (
            op.args[3],
            op.get(5, "dropout_p", 0.0),
            op.get(6, "is_causal", False),
        )
    elif named.endswith("flash_attention"):
        mask, dropout, causal = None, op.get(3, "dropout_p", 0.0), op.get(4, "is_causal", False)
    else:
        mask, dropout, causal = (
            op.get(3, "attn_mask"),
            op.get(4, "dropout_p", 0.0),
            op.get(5, "is_causal", False),
        )
    if dropout or q.dim() != 4 or q.shape[1] != k.shape[1]:
        return None
    seen = Heads(op, q, k, mask, bool(causal))
    flat = [seen.take(t) for t in (q, k, v)]

    def function(a: Any, b: Any, c: Any) -> list[Any]:
        weights, logs = seen.weights(a, b)
        return [weights @ c, logs]

    logs = op.outs[1] if len(op.outs) > 1 else None
    told = logs is not None and tuple(logs.shape) == tuple(q.shape[:3]) and logs.numel() > 0
    got = [seen.take(op.outs[0]), seen.take(logs) if told and logs is not None else None]
    op.extra["inner"] = op.dtype  # the weights are rounded to the dtype of v before their product
    length = k.shape[2] + q.shape[-1]
    return Noisy(op, flat, function).truths(got, length=length, axis=0, share=seen.share)


class Heads:
    """The heads that are judged of one attention, with their mask."""

    def __init__(self, op: Inputs, q: Any, k: Any, mask: Any, causal: bool) -> None:
        xp, self.op = op.xp, op
        count, queries, keys = q.shape[0] * q.shape[1], q.shape[2], k.shape[2]
        self.at = spread(count, max(1, MOST // max(queries * keys, 1)), op.turn)
        self.share = len(self.at) / count
        self.scale = op.kwargs.get("scale") or 1 / math.sqrt(q.shape[-1])
        self.hidden = None
        if mask is not None:
            whole = mask.expand(*q.shape[:2], queries, keys).reshape(-1, queries, keys)
            self.hidden = op.f64(whole[self.at])
            if self.hidden.dtype == bool:
                self.hidden = xp.where(self.hidden, 0.0, -xp.inf)
        if causal:
            future = xp.where(xp.tri(queries, keys, dtype=bool), 0.0, -xp.inf)
            self.hidden = future if self.hidden is None else self.hidden + future

    def take(self, t: Any) -> Any:
        """(N, H, ...) to (heads, ...), in float64."""
        return self.op.f64(t.reshape(-1, *t.shape[2:])[self.at])

    def weights(self, q: Any, k: Any, logs: Any = None) -> tuple[Any, Any]:
        """softmax(q k^T scale + mask) and the logarithm of its divisor, which may be given."""
        xp = self.op.xp
        scores = q @ xp.swapaxes(k, -1, -2) * self.scale
        scores = scores if self.hidden is None else scores + self.hidden
        if logs is not None:
            return xp.exp(scores - logs[..., None]), logs
        top = scores.max(-1, keepdims=True)
        top = xp.where(xp.isfinite(top), top, 0.0)
        power = xp.exp(scores - top)
        whole = power.sum(-1, keepdims=True)
        return power / xp.where(whole > 0, whole, 1.0), (top + xp.log(whole))[..., 0]


@formula(
    "aten._scaled_dot_product_flash_attention_for_cpu_backward",
    "aten._scaled_dot_product_flash_attention_backward",
    "aten._scaled_dot_product_efficient_attention_backward",
)
def attention_backward(op: Inputs) -> list[Truth] | None:
    """Gradients of q, k and v; grad_out (N, H, L, D)."""
    xp, named = op.xp, op.name.split(".")[1]
    grad, q, k, v = op.args[:4]
    if "for_cpu" in named:
        dropout, causal, mask = op.args[6], op.args[7], op.kwargs.get("attn_mask")
    elif "efficient" in named:
        mask, dropout, causal = op.args[4], op.args[9], op.get(11, "is_causal", False)
    else:
        mask, dropout, causal = None, op.args[10], op.args[11]
    if dropout or q.dim() != 4 or q.shape[1] != k.shape[1]:
        return None
    seen = Heads(op, q, k, mask, bool(causal))
    out, logs = op.args[5:7] if "efficient" in named else op.args[4:6]
    flat = [seen.take(t) for t in (grad, q, k, v, out)]
    if tuple(logs.shape) == tuple(q.shape[:3]):
        flat.append(seen.take(logs))

    def function(g: Any, a: Any, b: Any, c: Any, o: Any, *given: Any) -> list[Any]:
        # from what the forward kept, as kernels do: where terms cancel, its rounding is left
        weights, _ = seen.weights(a, b, *given)
        inner = g @ xp.swapaxes(c, -1, -2)
        inner = weights * (inner - (g * o).sum(-1, keepdims=True))
        back = xp.swapaxes(inner, -1, -2)
        return [inner @ b * seen.scale, back @ a * seen.scale, xp.swapaxes(weights, -1, -2) @ g]

    def cancelled(g: Any, a: Any, b: Any, c: Any, o: Any, *given: Any) -> list[Any]:
        # g c^T and the sum of g o cancel, wholly where a query has one key; both are rounded
        weights, _ = seen.weights(a, b, *given)
        g, a, b, c, o = (xp.abs(t) for t in (g, a, b, c, o))
        inner = weights * (g @ xp.swapaxes(c, -1, -2) + (g * o).sum(-1, keepdims=True))
        inner = inner * UNIT[op.compute] * (math.sqrt(q.shape[-1]) + 2) * seen.scale
        return [inner @ b, xp.swapaxes(inner, -1, -2) @ a, xp.zeros(c.shape)]

    op.extra["inner"] = op.dtype
    got = [None if out is None or not out.numel() else seen.take(out) for out in op.outs[:3]]
    length, least = k.shape[2] + q.shape[-1], cancelled(*flat)
    return Noisy(op, flat, function).truths(
        got, length=length, axis=0, share=seen.share, least=least
    )


@formula("aten.native_dropout")
def dropout(op: Inputs) -> list[Truth] | None:
    """The mask is a draw; that it is applied, scaled, and drawn about as often as asked, is not."""
    from reefwatch.gather.numerics.pointwise import Sampled, judged

    xp, chance, training = op.xp, op.args[1], op.args[2]
    if training is False or not 0 < chance < 1:
        return None
    take = Sampled(op, op.outs[0])
    mask = take(op.outs[1])
    told = judged(op, take, take(op.args[0]) * mask / (1 - chance), 0.0, 2)
    kept, count = float(op.outs[1].sum()), op.outs[1].numel()
    spread_of = math.sqrt(count * chance * (1 - chance))
    told.append(
        Truth(
            xp.asarray(count * (1 - chance)),
            xp.asarray(kept),
            xp.asarray(8 * spread_of + 1),
            rule="share of the mask",
            output=0,
        )
    )
    return told


@formula("aten.embedding")
def embedding(op: Inputs) -> list[Truth]:
    weight, places, out = op.args[0], op.args[1].reshape(-1), op.outs[0]
    at = spread(places.numel(), 4096, op.turn)
    rows = op.f64(places[at])
    used, back = op.xp.unique(rows, return_inverse=True)
    values = op.f64(weight[used.tolist()])[back.reshape(-1)]
    got = op.f64(out.reshape(-1, out.shape[-1])[at])
    return [Truth(values, got, exact=True, rule="exact", share=len(at) / max(places.numel(), 1))]


@formula("aten.embedding_dense_backward")
def embedding_backward(op: Inputs) -> list[Truth]:
    from reefwatch.measure.rounding import product_bound

    xp, (grad, places, count, padding, scaled) = op.xp, op.args[:5]
    flat, at = op.f64(grad.reshape(-1, grad.shape[-1])), op.f64(places.reshape(-1))
    keep = at != padding if padding >= 0 else xp.ones_like(at, dtype=bool)
    often = xp.bincount(at[keep], minlength=count)
    if scaled:
        flat = flat / xp.maximum(often, 1)[at][:, None]
    values = xp.zeros((count, flat.shape[1]))
    absolute = xp.zeros_like(values)
    xp.add.at(values, at[keep], flat[keep])
    xp.add.at(absolute, at[keep], xp.abs(flat[keep]))
    # some kernels add in the dtype of the gradient, one after the other
    bound = product_bound(
        xp,
        values,
        absolute,
        int(often.max(initial=1)),
        accumulate=op.dtype,
        result=op.dtype,
        sure=8.0,
    )
    return [Truth(values, op.f64(op.outs[0]), bound, rule="rounding bound", axis=0)]


@formula("aten.nll_loss_forward", "aten.nll_loss2d_forward")
def nll_loss(op: Inputs) -> list[Truth] | None:
    """Outputs the loss and the total weight; x (N, C, ...)."""
    xp, (x, target, weight, reduction, ignored) = op.xp, op.args[:5]
    if x.dim() == 1:
        return None
    at = op.f64(target)
    keep = at != ignored
    each = op.f64(weight) if weight is not None else xp.ones(x.shape[1])
    safe = xp.where(keep, at, 0)
    weights = each[safe] * keep
    rows = op.f64(x.movedim(1, -1))

    def function(a: Any) -> list[Any]:
        picked = -xp.take_along_axis(a, safe[..., None], -1)[..., 0] * weights
        total = xp.asarray(weights.sum())
        if reduction == 0:
            return [picked, total * 0]
        return [xp.asarray(picked.sum() / total if reduction == 1 else picked.sum()), total]

    got = [op.f64(op.outs[0]), None if reduction == 0 else op.f64(op.outs[1])]
    return Noisy(op, [rows], function).truths(got, length=at.size, axis=None)


@formula("aten.nll_loss_backward", "aten.nll_loss2d_backward")
def nll_loss_backward(op: Inputs) -> list[Truth] | None:
    xp, (grad, x, target, weight, reduction, ignored, total) = op.xp, op.args[:7]
    if x.dim() == 1:
        return None
    at = op.f64(target)
    keep = at != ignored
    each = op.f64(weight) if weight is not None else xp.ones(x.shape[1])
    safe = xp.where(keep, at, 0)
    weights = each[safe] * keep
    back = op.f64(grad) if reduction == 0 else op.f64(grad).reshape(-1)[0]
    whole = float(op.f64(total)) if reduction == 1 else 1.0
    values = xp.zeros((*at.shape, x.shape[1]))
    xp.put_along_axis(values, safe[..., None], (-weights * back / whole)[..., None], -1)
    values = xp.moveaxis(values, -1, 1)

    from reefwatch.measure.rounding import UNIT, last_place

    bound = last_place(xp, values, op.dtype) + 8 * UNIT[op.compute] * xp.abs(values)
    return [Truth(values, op.f64(op.outs[0]), bound, rule="last place", axis=1)]


@formula("aten.mse_loss")
def mse_loss(op: Inputs) -> list[Truth]:
    reduction = op.get(2, "reduction", 1)

    def function(a: Any, b: Any) -> list[Any]:
        square = (a - b) ** 2
        return [op.xp.asarray((square, square.mean(), square.sum())[reduction])]

    inputs = [op.f64(t) for t in op.args[:2]]
    return Noisy(op, inputs, function).truths(
        [op.f64(op.outs[0])], length=inputs[0].size, axis=None
    )


@formula("aten.mse_loss_backward")
def mse_loss_backward(op: Inputs) -> list[Truth]:
    reduction = op.args[3]
    inputs = [op.f64(t) for t in op.args[:3]]

    def function(g: Any, a: Any, b: Any) -> list[Any]:
        return [2 * (a - b) * g / (a.size if reduction == 1 else 1)]

    return Noisy(op, inputs, function).truths([op.f64(op.outs[0])], length=1)
