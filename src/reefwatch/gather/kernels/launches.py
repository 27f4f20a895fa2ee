"""The launch hook: first launches of each build of a Triton kernel, on the card, held to witnesses.

Asked for by `run --kernels`. Inputs are copied before the launch and outputs after it. The
witnesses are Triton's interpreter on the CPU (on sampled programs when the grid is large: then only
what those write is compared), the same kernel with another number of warps, and other candidates
of an autotuner on the same inputs. Kernels of `torch.compile` are seen where Inductor launches.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from reefwatch.core.fact import Evidence, Unknown
from reefwatch.gather.dtypes import short
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.kernels.card import Copies, Witness
from reefwatch.gather.patches import Patches

FIRST = 2
"""Launches of each build that are held against witnesses."""
SAMPLE = 24
"""Programs of a large grid that the interpreter is asked for."""
LARGE = 64
"""Programs from which on a grid is sampled."""
BYTES = 256 << 20
"""Of the arguments of a launch that are copied at most."""
ON_CARD = "on a card nothing watches single instructions (reefwatch kernels does)"


class Launches(Instrument):
    """Looks at launches as Triton and Inductor make them."""

    name = "kernels.launches"
    contract = "kernels"

    def arm(self, tools: Tools) -> None:
        self._tools = tools
        self._torch = tools.torch
        self._patches = Patches()
        self._seen: Counter[Any] = Counter()
        self._outputs: dict[Any, tuple[str, list[Any], list[Any]]] = {}
        self._launches = self._examined = 0
        self._spent = 0.0
        self._allowance = float(tools.options.get("exam", 20.0))
        self._inside = False
        self._why = ""
        try:
            import triton
            from triton.runtime.jit import JITFunction
        except ImportError as error:
            self._why = f"triton cannot be imported: {error}"
            return
        self._version = triton.__version__
        self._patches.replace(JITFunction, "run", self._jit)
        try:
            from torch._inductor.runtime.triton_heuristics import CachingAutotuner
        except ImportError:
            return
        self._patches.replace(CachingAutotuner, "run", self._inductor)

    def _jit(self, original: Any) -> Any:
        def run(jit: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            if warmup or self._inside:
                return original(jit, *args, grid=grid, warmup=warmup, **kwargs)

            def launch(given: Sequence[Any], **options: Any) -> Any:
                more = {**kwargs, **options}
                return original(jit, *given, grid=grid, warmup=False, **more)

            return self._launched(jit, args, kwargs, grid, lambda: launch(args), launch)

        return run

    def _inductor(self, original: Any) -> Any:
        def run(tuner: Any, *args: Any, stream: Any, **kwargs: Any) -> Any:
            def plain() -> Any:
                self._inside = True  # what it benchmarks is not the program's
                try:
                    return original(tuner, *args, stream=stream, **kwargs)
                finally:
                    self._inside = False

            if self._inside or kwargs.get("benchmark_run"):
                return original(tuner, *args, stream=stream, **kwargs)
            return self._launched(tuner.fn, args, _Generated(tuner), None, plain, None)

        return run

    def _launched(self, jit: Any, args: Any, kwargs: Any, grid: Any, plain: Any, again: Any) -> Any:
        self._launches += 1
        key = (id(jit), _key(self._torch, args, kwargs))
        if self._seen[key] >= FIRST or self._spent > self._allowance or self._capturing():
            return plain()
        self._seen[key] += 1
        begun = time.perf_counter()
        copies = Copies(self._torch, jit, args, kwargs, BYTES)
        self._spent += time.perf_counter() - begun
        result = plain()
        begun = time.perf_counter()
        self._inside = True
        try:
            self._examine(jit, args, kwargs, grid, again, copies, result)
        finally:
            self._inside = False
            self._spent += time.perf_counter() - begun
        return result

    def _examine(
        self, jit: Any, args: Any, kwargs: Any, grid: Any, again: Any, copies: Any, result: Any
    ) -> None:
        from reefwatch.gather.kernels import source

        options: dict[str, Any] = {}
        if isinstance(kwargs, _Generated):
            grid, options, again = kwargs.now(jit, args)
            kwargs = dict(kwargs)
        witness = Witness(self._torch, jit, copies, args, kwargs, grid, again)
        row = {
            **source.named(jit),
            "unit": "run",
            "version": self._version,
            "launch": self._examined + 1,
            "grid": list(witness.grid),
            "options": {**options, **_warps(result)},
            "constants": {k: v for k, v in kwargs.items() if isinstance(v, (int, float, str))},
            "arguments": [
                [b.name, short(b.tensor.dtype), list(b.tensor.shape)] for b in copies.buffers
            ],
            "specialisation": "",
            "examined": True,
        }
        target = self._target()
        subject: dict[str, Any] = {"status": "ran", "reason": "", "reports": [], "witnesses": []}
        subject |= {"compares": [], "scan": _scan(result, target)}
        if copies.why:
            row["interpreter"] = copies.why
        else:
            rng = random.Random(self._examined)
            row["interpreter"] = witness.interpreter(subject, rng, SAMPLE, LARGE, _text(result))
            witness.warps(subject, int(row["options"].get("num_warps", 0) or 4))
            self._candidates(jit, copies, witness, row, subject)
        row["subjects"] = {target: subject}
        self._examined += 1
        self._tools.sink.event("kernels.launch", row, id=f"{self._version}/{self._examined}")

    def _candidates(self, jit: Any, copies: Any, witness: Any, row: Any, subject: Any) -> None:
        """Another build of the kernel that was given the same inputs."""
        mine = ", ".join(f"{k}={v}" for k, v in {**row["constants"], **row["options"]}.items())
        key = (id(jit), copies.digest(witness.after))
        if key not in self._outputs:
            self._outputs[key] = mine, copies.before, witness.after
            return
        name, before, theirs = self._outputs[key]
        if name == mine:
            return
        told = witness.candidate(name, before, theirs)
        if told is not None:
            subject["witnesses"].append({**told, "mine": mine})

    def _capturing(self) -> bool:
        cuda = self._torch.cuda
        return bool(cuda.is_available() and cuda.is_current_stream_capturing())

    def _target(self) -> str:
        told = self._torch.cuda.get_device_properties(self._torch.cuda.current_device())
        arch = str(getattr(told, "gcnArchName", "")).partition(":")[0]
        return arch if arch.startswith("gfx") else f"sm_{told.major}{told.minor}"

    def tell(self) -> None:
        sink = self._tools.sink
        told: dict[str, Any] = {
            "versions": {} if self._why else {self._version: {"asked": "", "failed": ""}},
            "targets": [],
            "launches": self._launches,
            "examined": self._examined,
        }
        sink.fact("kernels.matrix", Evidence("kernels.matrix", told, source="launch hook"))
        why = self._why or "no Triton kernel was launched"
        if self._launches and not self._examined:
            why = "no launch was examined: the allowance was used up (--exam)"
        launches = Evidence("kernels.launches", self._launches, "launches", "launch hook")
        sink.fact("kernels.launches", launches if self._examined else Unknown(why))
        sink.fact("kernels.observers", Unknown(ON_CARD))
        sink.fact("kernels.units", Unknown("a run's own end tells whether its checks pass"))

    def disarm(self) -> None:
        self.release()
        self.tell()

    def release(self) -> None:
        self._patches.restore()
        self._outputs.clear()


class _Generated(Mapping[str, Any]):
    """The constants of a kernel of Inductor's, as its tuner has them when they are read."""

    def __init__(self, tuner: Any) -> None:
        self.tuner = tuner

    def _now(self) -> dict[str, Any]:
        launchers = self.tuner.launchers
        config = launchers[0].config if len(launchers) == 1 else self.tuner.configs[0]
        constants = dict(self.tuner.triton_meta.get("constants", {}))
        named = {k: v for k, v in constants.items() if isinstance(k, str)}
        return {**named, **config.kwargs}

    def __getitem__(self, name: str) -> Any:
        return self._now()[name]

    def __iter__(self) -> Any:
        return iter(self._now() if self.tuner.configs or self.tuner.launchers else ())

    def __len__(self) -> int:
        return len(self._now())

    def now(self, jit: Any, args: Any) -> tuple[Any, dict[str, Any], Any]:
        """(grid, options, how it is launched again on other tensors) after the launch."""
        from torch._inductor.runtime.triton_heuristics import GridExpr

        config = self.tuner.launchers[0].config
        named = dict(zip(jit.arg_names, args, strict=False))
        meta = {k: v for k, v in {**named, **self._now()}.items() if isinstance(v, int)}
        told = GridExpr.from_meta(self.tuner.inductor_meta, config).eval_slow(meta)
        constants = self._now()

        def again(given: Sequence[Any], **options: Any) -> Any:
            free = {k: v for k, v in constants.items() if k in jit.arg_names[len(given) :]}
            return jit[told](*given, **free, **options)

        return told, {"num_warps": config.num_warps, "num_stages": config.num_stages}, again


def _key(torch: Any, args: Any, kwargs: Any) -> Any:
    """What makes a launch another build: dtypes, alignments, constants."""
    if isinstance(kwargs, _Generated):
        return ()
    parts: list[Any] = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            parts.append((str(value.dtype), value.data_ptr() % 16 == 0))
        elif isinstance(value, int):
            parts.append(
                (value if type(value) is bool or value == 1 else value % 16 == 0, type(value))
            )
        else:
            parts.append((repr(value)[:60], type(value)))
    constants = {k: v for k, v in kwargs.items() if isinstance(v, (int, str, bool))}
    return (*parts, *sorted(constants.items(), key=str))


def _warps(kernel: Any) -> dict[str, Any]:
    metadata = getattr(kernel, "metadata", None)
    names = ("num_warps", "num_stages")
    return {name: getattr(metadata, name) for name in names if hasattr(metadata, name)}


def _text(kernel: Any) -> str:
    asm = getattr(kernel, "asm", None) or {}
    try:
        return str(asm["ttir"])
    except (KeyError, TypeError):
        return ""


def _scan(kernel: Any, target: str) -> dict[str, Any]:
    """What the assembly says, where it is AMD's."""
    asm = getattr(kernel, "asm", None) or {}
    made: dict[str, Any] = {"facts": {}, "matrix": {}, "found": [], "unscanned": []}
    if "amdgcn" not in asm:
        made["unscanned"] = ["the order of memory: its code is not AMD's or was not kept"]
        return made
    from reefwatch import isa

    told = isa.scan(asm["amdgcn"], target, shared=int(kernel.metadata.shared or 0))
    found = [vars(one).copy() for one in told.found]
    return {
        "facts": dict(told.facts),
        "matrix": dict(told.matrix),
        "found": found,
        "unscanned": list(told.unscanned),
    }
