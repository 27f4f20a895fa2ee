"""Does the op layer change the bits of any op? Sweeps torch's own op database on the CPU.

Each sample of each op runs twice plainly and once under the layer, from the same random state:
forward and, where it is supported, backward with seeded cotangents; also under autocast, without
gradients, in inference mode, and in place. Compared are values bit by bit, dtypes, shapes, strides,
errors, and the random state afterwards. An op whose two plain runs differ (uninitialised memory) is
left out and counted.

    python scripts/verify/loop_ops.py [--seconds 4] [--only NAME] [--mode] (needs expecttest)

With `--mode` the layer is a dispatch mode, as in programs that compile (docs/decisions/0004).
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.ops import OpLayer
from reefwatch.gather.precision.audit import PrecisionAudit
from reefwatch.gather.precision.examine import Memory

Run = Callable[[], list[Any]]


def bits(value: Any) -> Any:
    """Something that is equal exactly when the bits are."""
    if not isinstance(value, torch.Tensor):
        return repr(value)
    told = (str(value.dtype), str(value.layout), tuple(value.shape))
    if value.layout is not torch.strided:
        return (*told, repr(value.detach()))
    if value.is_quantized:
        return (*told, value.int_repr().tolist())
    plain = value.detach().resolve_conj().resolve_neg().contiguous().view(-1)
    raw = plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b""
    return (*told, tuple(value.stride()), raw)


def fresh(value: Any) -> Any:
    """A copy of a sample's tensors, leaves again."""

    def copy(t: Any) -> Any:
        if not isinstance(t, torch.Tensor):
            return t
        made = t.detach().clone(memory_format=torch.preserve_format)
        return made.requires_grad_(t.requires_grad)

    return tree_map(copy, value)


def told(run: Run) -> tuple[Any, ...]:
    """Bits of everything that `run` gives, or its error, and the random state after it."""
    torch.manual_seed(1234)
    try:
        result: Any = tuple(bits(value) for value in run())
    except Exception as error:
        result = (type(error).__name__, str(error))
    return result, torch.get_rng_state().numpy().tobytes()


def once(op: Any, sample: Any, mode: str) -> Run:
    """One call of `op` on a fresh copy of `sample`, in `mode`."""

    def run() -> list[Any]:
        base, args, kwargs = fresh((sample.input, sample.args, sample.kwargs))
        if mode == "inference":
            with torch.inference_mode():
                return tree_flatten(op(base, *args, **kwargs))[0]
        if mode == "no_grad":
            with torch.no_grad():
                return tree_flatten(op(base, *args, **kwargs))[0]
        if mode == "inplace":
            with torch.no_grad():
                return tree_flatten(op.inplace_variant(base, *args, **kwargs))[0]
        with torch.autocast("cpu", torch.bfloat16, enabled=mode == "autocast"):
            outs = tree_flatten(op(base, *args, **kwargs))[0]
        leaves = [
            t
            for t in tree_flatten((base, args, kwargs))[0]
            if isinstance(t, torch.Tensor) and t.requires_grad
        ]
        given = [o for o in outs if isinstance(o, torch.Tensor) and o.requires_grad]
        if not leaves or not given:
            return outs
        cotangents = [torch.randn_like(o) for o in given]
        grads = torch.autograd.grad(given, leaves, cotangents, allow_unused=True)
        return [*outs, *grads]

    return run


def samples(op: Any, dtype: torch.dtype, grad: bool) -> Iterator[Any]:
    torch.manual_seed(7)
    yield from op.sample_inputs("cpu", dtype, requires_grad=grad)


def modes(op: Any, dtype: torch.dtype) -> list[tuple[str, bool]]:
    found = [("no_grad", False), ("inference", False)]
    if op.supports_autograd and dtype in op.supported_backward_dtypes("cpu"):
        found.insert(0, ("backward", True))
        if dtype is torch.float32:
            found.append(("autocast", True))
    if op.inplace_variant is not None:
        found.append(("inplace", False))
    return found


def repeatable(run: Run, first: Any) -> bool:
    """True when many more plain runs all give `first`: some BLAS paths depend on alignment."""
    ballast = []
    for n in range(30):
        ballast.append(torch.empty(1 + 37 * n))  # so that memory is given out elsewhere
        if told(run) != first:
            return False
    return True


Swept = tuple[Counter[str], dict[str, set[str]], dict[str, str]]


def sweep(seconds: float, only: str, listener: bool, key: bool) -> Swept:
    """(counts, modes in which each op differs, what the audit failed on)."""
    from torch.testing._internal.common_methods_invocations import op_db

    counts: Counter[str] = Counter()
    differ: dict[str, set[str]] = defaultdict(set)
    failed: dict[str, str] = {}
    for op in op_db:
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        if only and only != name:
            continue
        for dtype in (torch.float32, torch.bfloat16):
            if dtype not in op.supported_dtypes("cpu"):
                continue
            counts["ops x dtypes"] += 1
            # an audit for each: one that had met every op would write its whole table each time
            memory = Memory()
            tools = Tools(torch, memory, time.perf_counter, None, {"claim": "bf16-mixed"})
            audit = PrecisionAudit()
            audit.arm(tools)
            listeners: list[Instrument] = [audit] if listener else []
            for mode, grad in modes(op, dtype):
                began = time.perf_counter()
                try:
                    for sample in samples(op, dtype, grad):
                        run = once(op, sample, mode)
                        plain = told(run)
                        if told(run) != plain:
                            counts["not repeatable"] += 1
                            continue
                        # a layer of its own for each sample: as a mode, one that met an op of
                        # decision 0004 examines no more, and what is not examined cannot differ
                        layer = OpLayer(tools, listeners, key=key)
                        layer.enter(0)
                        try:
                            watched = told(run)
                        finally:
                            layer.leave()
                        audit.close(0)
                        counts["samples"] += 1
                        counts["ops told"] += layer.ops
                        counts["samples without an op told"] += not layer.ops
                        failure = memory.facts.pop("errored.precision", None)
                        if failure is not None:
                            failed[f"{name} {dtype} {mode}"] = str(failure)
                        if watched != plain and repeatable(run, plain):
                            differ[f"{name} {dtype}".replace("torch.", "")].add(mode)
                            counts["samples that differ"] += 1
                        if time.perf_counter() - began > seconds:
                            counts["cut short"] += 1
                            break
                except Exception as error:
                    counts[f"no samples ({type(error).__name__})"] += 1
            audit.disarm()
    return counts, differ, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="at most, per op, dtype, mode")
    parser.add_argument("--only", default="", help="one op by name")
    parser.add_argument("--bare", action="store_true", help="without the audit listening")
    parser.add_argument("--mode", action="store_true", help="as where programs compile")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    counts, differ, failed = sweep(asked.seconds, asked.only, not asked.bare, not asked.mode)
    layer = "a dispatch mode" if asked.mode else "a dispatch key"
    print(f"torch {torch.__version__}, CPU, float32 and bfloat16; the layer is {layer}.\n")
    print("| what | count |\n| --- | ---: |")
    for what, count in counts.items():
        print(f"| {what} | {count} |")
    print("\nOps that differ under the layer: " + ("none" if not differ else ""))
    for name, where in sorted(differ.items()):
        print(f"- {name}: {', '.join(sorted(where))}")
    print(f"\nThe audit failed on: {'nothing' if not failed else ''}")
    for name, failure in failed.items():
        print(f"- {name}: {failure}")
    return 1 if differ or failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
