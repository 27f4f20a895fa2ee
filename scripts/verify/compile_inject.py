"""Single wrong rewrites of the graph that Inductor lowers: how many are found, and where.

With `--through aten` the graphs of AOTAutograd (decompositions and partition of Inductor) are
rewritten and run by ATen's kernels; with `--through inductor` the post-grad graph is, and code is
generated.
One rewrite in a forward or backward graph, chosen by a fresh seed over ten models. A pass that is
wrong is wrong wherever what it looks for stands: the rewrite fits an op of the program by its
kind, its shapes and the ATen op that it became (`--plant pattern`), or one node by its name
(`--plant name`; a graph that is cut has other names, and the fault is gone from it). A
rewrite counts when results, gradients or buffers of the compiled code move beyond rounding: by
more than 1e-4 of the larger of the element and its tensor's rms, against the code without it.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

warnings.filterwarnings("ignore")
import torch  # noqa: E402
from compile_models import models  # noqa: E402

aten = torch.ops.aten
convert = torch.ops.prims.convert_element_type.default
SWAPS = {
    aten.add.Tensor: aten.sub.Tensor,
    aten.sub.Tensor: aten.add.Tensor,
    aten.div.Tensor: aten.mul.Tensor,
    aten.relu.default: aten.abs.default,
    aten.sigmoid.default: aten.tanh.default,
    aten.tanh.default: aten.sigmoid.default,
    aten.exp.default: aten.expm1.default,
    aten.log.default: aten.log1p.default,
    aten.rsqrt.default: aten.sqrt.default,
    aten.sqrt.default: aten.rsqrt.default,
    aten.maximum.default: aten.minimum.default,
    aten.amax.default: aten.amin.default,
    aten.sum.dim_IntList: aten.mean.dim,
    aten.mean.dim: aten.sum.dim_IntList,
    aten.lt.Scalar: aten.gt.Scalar,
    aten.gt.Scalar: aten.lt.Scalar,
    aten.le.Scalar: aten.ge.Scalar,
    aten.erf.default: aten.tanh.default,
}


def rewrites(node: Any) -> list[tuple[str, Callable[[Any, Any], None]]]:
    """The wrong rewrites that fit a node."""
    found: list[tuple[str, Callable[[Any, Any], None]]] = []
    if node.op != "call_function":
        return found
    value, target, args = node.meta.get("val"), node.target, node.args
    floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    if target in SWAPS:
        found.append(("other op", _swap))
    numbers = [n for n, a in enumerate(args) if isinstance(a, float) and a not in (0.0, 1.0)]
    if numbers and floating:
        found.append(("other constant", lambda g, n: _constant(n, numbers[0])))
    if target is aten.mul.Tensor and floating:
        found.append(("factor lost", lambda g, n: n.replace_all_uses_with(n.args[0])))
    tensors = [a for a in args if isinstance(a, torch.fx.Node)]
    if target in (aten.sub.Tensor, aten.div.Tensor) and len(tensors) == 2:
        found.append(("operands swapped", lambda g, n: setattr(n, "args", (n.args[1], n.args[0]))))
    if target is aten.where.self:
        found.append(
            ("branches swapped", lambda g, n: setattr(n, "args", (n.args[0], n.args[2], n.args[1])))
        )
    if target in (aten.sum.dim_IntList, aten.mean.dim, aten.amax.default) and tensors:
        found.append(("last left out", _short))
    if target is aten.var_mean.correction:
        found.append(("correction", _correction))
    if target in (aten.mm.default, aten.addmm.default, aten.bmm.default) and floating:
        found.append(("rounded to bf16", _coarse))
    if target is aten.copy_.default:
        found.append(("write lost", _lost))
    if target in (aten.index_put.default,) and len(args) > 3 and args[3]:
        found.append(("overwrites", lambda g, n: setattr(n, "args", (*n.args[:3], False))))
    if target is aten.embedding.default:
        found.append(("row shift", _rows))
    return found


def _swap(graph: Any, node: Any) -> None:
    node.target = SWAPS[node.target]
    if node.target is aten.sum.dim_IntList or node.target is aten.mean.dim:
        return
    if node.target in (aten.mul.Tensor,):
        node.kwargs = {}


def _constant(node: Any, place: int) -> None:
    args = list(node.args)
    args[place] = args[place] * 1.25 if abs(args[place]) > 1e-2 else args[place] * 100
    node.args = tuple(args)


def _short(graph: Any, node: Any) -> None:
    source = node.args[0]
    dims = node.args[1] if len(node.args) > 1 else []
    dim = (dims[0] if isinstance(dims, (list, tuple)) and dims else 0) if dims != [] else 0
    size = source.meta["val"].shape[dim]
    with graph.inserting_before(node):
        part = graph.call_function(aten.slice.Tensor, (source, dim, 0, size - 1))
    node.args = (part, *node.args[1:])


def _correction(graph: Any, node: Any) -> None:
    node.kwargs = {**node.kwargs, "correction": 1 - int(node.kwargs.get("correction", 0))}


def _coarse(graph: Any, node: Any) -> None:
    with graph.inserting_after(node):
        low = graph.call_function(convert, (node, torch.bfloat16))
    with graph.inserting_after(low):
        back = graph.call_function(convert, (low, node.meta["val"].dtype))
    for user in list(node.users):
        if user is not low:
            user.replace_input_with(node, back)


def _lost(graph: Any, node: Any) -> None:
    node.replace_all_uses_with(node.args[0])
    graph.erase_node(node)


def _rows(graph: Any, node: Any) -> None:
    with graph.inserting_before(node):
        rows = graph.call_function(aten.clamp_max.default, (node.args[1], 12))
    node.args = (node.args[0], rows, *node.args[2:])


Site = tuple[bool, str, str, str, str, str]
"""Backward or forward, name (or none), ATen op, rewrite, op of the program, shapes."""


class Planting:
    """Stands in Inductor's post-grad pass: lists the sites, or rewrites one of them."""

    def __init__(self) -> None:
        self.sites: list[Site] = []
        self.chosen: Site | None = None
        self.by_name = False
        self.sources: set[str] = set()
        """Ops of the program that the rewritten nodes come from, while `noting`."""
        self.noting = True
        self.done = 0

    def __call__(self, graph: Any) -> None:
        names = [n.name for n in graph.nodes if n.op == "placeholder"]
        backward = any("tangents" in name for name in names)
        for node in list(graph.nodes):
            for title, act in rewrites(node):
                kind = _origin(node).rstrip("_0123456789")
                name = node.name if self.by_name else ""
                site = (backward, name, str(node.target), title, kind, _shapes(node))
                if self.chosen is None:
                    self.sites.append(site)
                elif site == self.chosen:
                    if self.noting:
                        self.sources.add(_origin(node))
                    act(graph, node)
                    self.done += 1
                    graph.lint()
                    break

    def uuid(self) -> None:
        return None


def through_aten(plant: Planting) -> Any:
    """A backend: Inductor's decompositions and partition, ATen's kernels."""
    from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd
    from torch._inductor.decomposition import select_decomp_table

    def compiler(graph: Any, examples: Any) -> Any:
        plant(graph.graph)
        graph.recompile()
        return make_boxed_func(graph.forward)

    return aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=compiler,
        decompositions=select_decomp_table(),
        partition_fn=min_cut_rematerialization_partition,
    )


def _origin(node: Any) -> str:
    """Name of the node of dynamo's graph that this one comes from."""
    stack = node.meta.get("source_fn_stack") or node.meta.get("fwd_source_fn_stack") or []
    return str(stack[-1][0]) if stack else ""


def _shapes(node: Any) -> str:
    """Shapes of what a node gives and takes: tells alike ops apart."""
    values = [node.meta.get("val"), *(a.meta.get("val") for a in node.all_input_nodes)]
    return str([tuple(v.shape) if isinstance(v, torch.Tensor) else None for v in values])


def moved(a: Any, b: Any) -> bool:
    """True when two outcomes differ beyond rounding."""
    for path, x in a.tensors.items():
        y = b.tensors.get(path)
        if y is None or x.shape != y.shape:
            return True
        if not x.is_floating_point():
            if not torch.equal(x, y):
                return True
            continue
        x, y = x.double(), y.double()
        if not torch.equal(torch.isfinite(x), torch.isfinite(y)):
            return True
        x, y = x.nan_to_num(0, 0, 0), y.nan_to_num(0, 0, 0)
        if x.numel() and bool(
            ((x - y).abs() > 1e-4 * x.abs().clamp(min=float(x.pow(2).mean().sqrt()))).any()
        ):
            return True
    return set(a.tensors) != set(b.tensors)


def main() -> int:
    from reefwatch.gather.compiled.trial import RANDOM, SUM, Rules, Trial, judge_again

    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    parser.add_argument("--count", type=int, default=110)
    parser.add_argument("--locate", type=int, default=30, help="of those found, that are located")
    parser.add_argument("--seconds", type=float, default=5400)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--through", choices=("aten", "inductor"), default="aten")
    parser.add_argument("--plant", choices=("pattern", "name"), default="pattern")
    given = parser.parse_args()
    torch._inductor.config.force_disable_caches = True
    torch._inductor.config.fallback_random = True
    draw = random.Random(given.seed)
    plant = Planting()
    plant.by_name = given.plant == "name"
    backend: Any = "inductor"
    if given.through == "aten":
        backend = through_aten(plant)
    else:
        torch._inductor.config.post_grad_custom_pre_pass = plant
    began = time.monotonic()
    made = {}
    for name, (call, inputs) in models(given.seed).items():
        if isinstance(call, torch.nn.Module):
            call.to(given.device)
        inputs = tuple(i.detach().to(given.device).requires_grad_(i.requires_grad) for i in inputs)
        plant.sites, plant.chosen = [], None
        torch._dynamo.reset()
        trial = Trial(call, inputs, {}, whole=True)
        compiled = torch.compile(call, backend=backend)
        clean = {label: trial.run(compiled, (label,), eager=False) for label in (RANDOM, SUM)}
        made[name] = (call, trial, clean, list(dict.fromkeys(plant.sites)))
        print(f"{name}: {len(made[name][3])} sites", file=sys.stderr, flush=True)
    chosen = []
    names = list(made)
    for turn in range(given.count):
        name = names[turn % len(names)]
        sites = [s for s in made[name][3] if (name, s) not in chosen]
        if sites:
            chosen.append((name, draw.choice(sites)))
    count: Counter[str] = Counter()
    by: dict[str, Counter[str]] = {}
    missed, astray = [], []
    for number, (name, site) in enumerate(chosen):
        if time.monotonic() - began > given.seconds:
            count["not tried"] += 1
            continue
        call, trial, clean, _ = made[name]
        plant.chosen, plant.done, plant.sources, plant.noting = site, 0, set(), True
        torch._dynamo.reset()
        compiled = torch.compile(call, backend=backend)
        try:
            verdict = judge_again(trial, compiled, Rules())
            runs = {k: trial.run(compiled, (k,), eager=False) for k in (RANDOM, SUM)}
        except Exception as error:
            count["did not compile"] += 1
            print(f"{number} {name} {site}: {type(error).__name__}", file=sys.stderr, flush=True)
            continue
        if not plant.done or any(run.error for run in runs.values()):
            count["did not compile"] += 1
            continue
        changes = any(moved(clean[k], runs[k]) for k in runs)
        found = bool(verdict.differences)
        row = by.setdefault(site[3], Counter())
        if not changes:
            count["changes nothing"] += 1
            count["found below rounding"] += found
            continue
        count["changes a result"] += 1
        row["changes"] += 1
        count["found"] += found
        row["found"] += found
        where = ""
        if not found:
            missed.append(f"{name} {site[:4]}; inconclusive: {len(verdict.inconclusive)}")
        elif count["located of"] < given.locate:
            count["located of"] += 1
            where = _locate(call, trial, verdict, plant, backend)
            count["located"] += where == "located"
            if where != "located":
                source = " ".join(sorted(plant.sources)).strip() or "no op"
                astray.append(f"{name} {site[:4]} from {source}: {where}")
        print(
            f"{number} {name} {site[3]} at {site[2]}{' (backward)' if site[0] else ''}: "
            f"{'found' if found else 'MISSED'} {where} {time.monotonic() - began:.0f} s",
            file=sys.stderr,
            flush=True,
        )
    share = count["found"] / max(1, count["changes a result"])
    at = count["located"] / max(1, count["located of"])
    print(
        f"### Single wrong rewrites of the graph that is lowered, seed {given.seed}, "
        f"through {given.through}, {given.device}, planted by {given.plant}\n"
    )
    print("| | |\n| --- | --- |")
    for title, number in count.items():
        print(f"| {title} | {number} |")
    print(f"| found, of those that change a result | {share:.1%} |")
    print(f"| located to the op, of {count['located of']} that were located | {at:.1%} |\n")
    print("| rewrite | change a result | found |\n| --- | --- | --- |")
    for title, row in sorted(by.items()):
        print(f"| {title} | {row['changes']} | {row['found']} |")
    for line in missed:
        print(f"- missed: {line}")
    for line in astray:
        print(f"- not located: {line}")
    few = count["changes a result"] < 80
    return int(share < 0.95 or at < 0.85 or few)


def _locate(call: Any, trial: Any, verdict: Any, plant: Planting, backend: Any) -> str:
    """`located`, or what was named instead."""
    from reefwatch.experiments.compiled import window

    class Use:
        function = call
        settings = {"fullgraph": False, "dynamic": None, "backend": "inductor"}  # noqa: RUF012

        original = staticmethod(call)

    class Later:
        use, history, strict = Use, (), False

    later: Any = Later()
    later.trial = trial
    trial.later = True
    trial.setting = type(trial.setting)()
    path = verdict.differences[0].path
    plant.noting = False
    if not any(plant.sources):
        return "no op"
    started = time.monotonic()
    found = window.search(later, backend, path, lambda: time.monotonic() - started < 240)
    if found is None:
        return "no window"
    names = [_origin(node) or node.name for node in found.named]
    if plant.sources & set(names) and len(names) <= 3:
        return "located"
    return f"{names[-6:]}"


if __name__ == "__main__":
    sys.exit(main())
