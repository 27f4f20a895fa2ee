"""Real models with random weights, and counts of them by other means than Reefwatch's.

ResNet-50 (with BatchNorm and with GroupNorm) is written out here, the others are transformers' and
diffusers' own classes. `FULL` is what a GPU runs; on a CPU the same models run at a smaller size.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from precision_models import Made
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from reefwatch.gather.dtypes import short


class Bottleneck(nn.Module):
    def __init__(self, enter, width, stride, norm):
        super().__init__()
        leave = 4 * width
        self.conv1, self.norm1 = nn.Conv2d(enter, width, 1, bias=False), norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.norm2 = norm(width)
        self.conv3, self.norm3 = nn.Conv2d(width, leave, 1, bias=False), norm(leave)
        self.short = None
        if stride != 1 or enter != leave:
            self.short = nn.Sequential(nn.Conv2d(enter, leave, 1, stride, bias=False), norm(leave))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        y = F.relu(self.norm2(self.conv2(y)))
        y = self.norm3(self.conv3(y))
        return F.relu(y + (x if self.short is None else self.short(x)))


class ResNet50(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 64, 7, 2, 3, bias=False), norm(64)
        blocks, enter = [], 64
        for width, depth, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for n in range(depth):
                blocks.append(Bottleneck(enter, width, stride if n == 0 else 1, norm))
                enter = 4 * width
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(2048, 1000)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.stem(x))), 3, 2, 1)
        return self.head(self.blocks(x).mean((2, 3)))


def _class_loss(out):
    logits = getattr(out, "logits", out).flatten(0, -2)
    return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long, device=out_of(out)))


def out_of(out):
    return getattr(out, "logits", out).device


def _resnet(norm) -> Callable[[bool], Made]:
    def make(full):
        batch, side = (32, 224) if full else (2, 96)
        return ResNet50(norm), (torch.randn(batch, 3, side, side),), _class_loss

    return make


def _groups(width):
    return nn.GroupNorm(32, width)


def _vit(full):
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(num_labels=1000, **({} if full else {"num_hidden_layers": 4}))
    return (
        ViTForImageClassification(config),
        (torch.randn(32 if full else 1, 3, 224, 224),),
        _class_loss,
    )


def _llama(full):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=1024 if full else 256,
        intermediate_size=2816 if full else 704,
        num_hidden_layers=12 if full else 4,
        num_attention_heads=16 if full else 8,
        num_key_value_heads=16 if full else 8,  # torch 2.11 counts no flops of grouped heads
        vocab_size=32000 if full else 2000,
    )
    words = torch.randint(0, config.vocab_size, (4, 512) if full else (2, 128))
    return LlamaForCausalLM(config), (words,), _class_loss


def _unet(full):
    from diffusers import UNet2DConditionModel

    width = 128 if full else 32
    net = UNet2DConditionModel(
        sample_size=64 if full else 16,
        block_out_channels=(width, 2 * width, 4 * width),
        layers_per_block=2 if full else 1,
        down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=256 if full else 64,
        norm_num_groups=16,
    )
    side, batch = (64, 8) if full else (16, 2)
    inputs = (
        torch.randn(batch, 4, side, side),
        torch.randint(0, 1000, (batch,)),
        torch.randn(batch, 77, 256 if full else 64),
    )
    return net, inputs, lambda out: out.sample.float().pow(2).mean()


REAL: dict[str, Callable[[bool], Made]] = {
    "ResNet-50, BatchNorm": _resnet(nn.BatchNorm2d),
    "ResNet-50, GroupNorm": _resnet(_groups),
}
if find_spec("transformers"):
    REAL |= {"ViT-B (transformers)": _vit, "LLaMA (transformers)": _llama}
if find_spec("diffusers"):
    REAL["UNet (diffusers)"] = _unet
LEFT_OUT = [name for name in ("transformers", "diffusers") if not find_spec(name)]
"""Libraries that are not here, so that their models were not run."""


class Step:
    """One training step of a model, forward under bf16 autocast, for a device."""

    def __init__(self, name: str, device: str, full: bool = False) -> None:
        torch.manual_seed(0)
        net, inputs, self.loss_of = REAL[name](full)
        self.net = net.to(device).train()
        self.inputs = [x.to(device) for x in inputs]
        self.device = device
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-4)

    def forward(self) -> torch.Tensor:
        with torch.autocast(self.device, torch.bfloat16):
            return self.loss_of(self.net(*self.inputs))

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        self.forward().backward()
        self.optimizer.step()


class FlopsByDtype(TorchDispatchMode):
    """torch's own formulas, summed by the dtype of the first floating operand."""

    def __init__(self) -> None:
        super().__init__()
        self.total: dict[str, int] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        count = flop_registry.get(func._overloadpacket)
        if count is not None:
            first = next(a for a in args if isinstance(a, torch.Tensor) and a.is_floating_point())
            dtype = short(first.dtype)
            made = int(count(*args, **(kwargs or {}), out_val=out))
            self.total[dtype] = self.total.get(dtype, 0) + made
        return out


def flops(step: Step) -> tuple[int, dict[str, int]]:
    """(total of torch's FlopCounterMode, the same formulas by dtype), each in a run of its own."""
    whole = FlopCounterMode(display=False)
    with whole:
        step()
    parts = FlopsByDtype()
    with parts:
        step()
    return whole.get_total_flops(), parts.total


def saved(step: Step) -> dict[str, int]:
    """Bytes by dtype of the storages that autograd packs, parameters and buffers left out."""
    held = (*step.net.parameters(), *step.net.buffers())
    skip = {p.untyped_storage()._cdata for p in held}
    kept: dict[int, torch.Tensor] = {}
    total: dict[str, int] = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in skip and storage._cdata not in kept:
            kept[storage._cdata] = tensor
            total[short(tensor.dtype)] = total.get(short(tensor.dtype), 0) + storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = step.forward()
    loss.backward()
    step.optimizer.zero_grad()
    return total


PRODUCTS = frozenset(
    f"aten::{name}"
    for name in (
        *("mm", "addmm", "bmm", "baddbmm", "convolution", "convolution_overrideable"),
        *("_convolution", "convolution_backward", "_scaled_dot_product_flash_attention"),
        *("_scaled_dot_product_flash_attention_for_cpu", "mkldnn_convolution"),
        *("_scaled_dot_product_flash_attention_for_cpu_backward", "cudnn_convolution"),
        *("_scaled_dot_product_flash_attention_backward", "_scaled_dot_product_cudnn_attention"),
        *("_scaled_dot_product_cudnn_attention_backward", "miopen_convolution"),
        *("_scaled_dot_product_efficient_attention",),
        *("_scaled_dot_product_efficient_attention_backward",),
    )
)
HANDLER = "PythonDispatchMode"
FLOATING = ("float", "double", "c10::BFloat16", "c10::Half")


def times(traces: list[list[tuple[str, float]]]) -> dict[str, float]:
    """Shares of device time of products and of casts, and the seconds in all, of some traces.

    Profiles without Reefwatch, written as traces and read as JSON: no event object of torch's, and
    no op layer, has a part in it. Of each op, the least over the steps counts, as long as they are
    the same ops in the same order: what other work on the machine disturbed least.
    """
    same = {len(trace) for trace in traces}
    if len(same) > 1:
        traces = traces[:1]
    told = {"products": 0.0, "casts": 0.0, "rest": 0.0}
    for number, (category, _) in enumerate(traces[0]):
        told[category] += min(trace[number][1] for trace in traces)
    total = sum(told.values())
    return {name: value / total for name, value in told.items()} | {"seconds": total / 1e6}


def trace_of(step: Step) -> list[tuple[str, float]]:
    """(category, microseconds) of each op of one step, then of kernels that no op launched."""
    on_gpu = step.device != "cpu"
    kinds = torch.profiler.ProfilerActivity
    kinds = [kinds.CPU, kinds.CUDA] if on_gpu else [kinds.CPU]
    with torch.profiler.profile(activities=kinds, record_shapes=True) as profile:
        step()
        if on_gpu:
            torch.cuda.synchronize()
    return read(profile, on_gpu)


def read(profile: Any, on_gpu: bool) -> list[tuple[str, float]]:
    """The same of a profile that was made; what lies in the op layer's handler is left out."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    names = ("aten::", HANDLER)
    ops = [e for e in events if e.get("cat") == "cpu_op" and e["name"].startswith(names)]
    kernels: dict[int, float] = {}
    for event in events:
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            key = event["args"].get("External id", -1)
            kernels[key] = kernels.get(key, 0.0) + event["dur"]
    told = []
    nested = list(_nested(ops))
    outer = {id(parents[-1]) for op, parents, _ in nested if op["name"] == HANDLER and parents}
    for op, parents, own in nested:
        if id(op) in outer or op["name"] == HANDLER:
            continue  # what it takes to reach the handler, and the handler
        took = kernels.pop(op["args"].get("External id", -2), 0.0) if on_gpu else own
        told.append((_category([*parents, op]), took))
    return [*told, ("rest", sum(kernels.values()))]


def _nested(ops: list[Any]) -> Iterable[tuple[Any, list[Any], float]]:
    """Each op with those around it and its own time, by thread."""
    for thread in sorted({op["tid"] for op in ops}):
        stack: list[Any] = []
        mine = sorted((op for op in ops if op["tid"] == thread), key=lambda e: (e["ts"], -e["dur"]))
        inner: dict[int, float] = {}
        above: list[list[Any]] = []
        for op in mine:
            while stack and op["ts"] >= stack[-1]["ts"] + stack[-1]["dur"]:
                stack.pop()
            if stack:
                inner[id(stack[-1])] = inner.get(id(stack[-1]), 0.0) + op["dur"]
            above.append(list(stack))
            stack.append(op)
        for op, parents in zip(mine, above, strict=True):
            yield op, parents, max(0.0, op["dur"] - inner.get(id(op), 0.0))


def _category(chain: list[Any]) -> str:
    if any(op["name"] in PRODUCTS for op in chain):
        return "products"
    copying = False
    for op in chain:
        copying |= op["name"] == "aten::_to_copy"
        if copying:
            types = op["args"].get("Input type", [""])
            asked = str(op["args"].get("Concrete Inputs", ["", ""])[1:2])
            if op["name"] == "aten::_to_copy" and types[0] in FLOATING:
                return "casts" if asked != "['']" else "rest"
    return "rest"


CPU_ATTENTION = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: (
        torch.ops.aten._scaled_dot_product_flash_attention
    ),
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: (
        torch.ops.aten._scaled_dot_product_flash_attention_backward
    ),
}
"""torch's counter has no formula for attention on the CPU: that of the same op on a GPU."""
for _ours, _theirs in CPU_ATTENTION.items():
    if _ours not in flop_registry:
        flop_registry[_ours] = flop_registry[_theirs]
