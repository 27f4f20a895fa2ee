"""A launch on a card: copies of its arguments before and after, and its witnesses."""

from __future__ import annotations

import hashlib
import inspect
import random
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from reefwatch.gather.kernels import interpreted, values
from reefwatch.gather.kernels.arguments import Arguments, Buffer


class Copies:
    """The bytes of the tensors of a launch, by argument name, as they were before it."""

    def __init__(
        self, torch: Any, jit: Any, args: Sequence[Any], kwargs: Mapping[str, Any], most: int
    ) -> None:
        self.torch = torch
        self.why = ""
        """Why the launch cannot be judged."""
        names = list(jit.arg_names)
        named = {**dict(zip(names, args, strict=False)), **dict(kwargs)}
        tensors = {k: v for k, v in named.items() if isinstance(v, torch.Tensor)}
        self.buffers = [Buffer(k, v, v.data_ptr(), _extent(v)) for k, v in tensors.items()]
        self.arguments = Arguments(list(self.buffers))
        self.before: list[Any] = []
        total = sum(buffer.nbytes for buffer in self.buffers)
        spans = sorted((b.address, b.address + b.nbytes) for b in self.buffers)
        if total > most:
            self.why = f"its arguments have {total >> 20} MiB, more than is copied"
        elif any(a[1] > b[0] for a, b in pairwise(spans)):
            self.why = "its arguments share memory"
        else:
            self.before = self.now()

    def digest(self, after: Sequence[Any]) -> str:
        """Of the tensors that the launch only reads: candidates of a tuner share these."""
        joined = hashlib.sha256()
        for buffer, was, now in zip(self.buffers, self.before, after, strict=True):
            joined.update(f"{buffer.name} {len(was)}".encode())
            if np.array_equal(was, now):
                joined.update(was.data)
        return joined.hexdigest()

    def now(self) -> list[Any]:
        """The bytes as they are."""
        return [_bytes(self.torch, buffer) for buffer in self.buffers]

    def tensors(self, contents: Sequence[Any], device: str) -> dict[str, Any]:
        """New tensors of the same shapes and strides, on a device."""
        made = {}
        for buffer, raw in zip(self.buffers, contents, strict=True):
            old = buffer.tensor
            flat = self.torch.from_numpy(raw.copy()).to(device).view(old.dtype)
            made[buffer.name] = flat.as_strided(old.shape, old.stride())
        return made

    def bytes_of(self, tensors: Mapping[str, Any]) -> list[Any]:
        """The bytes of such tensors, in order."""
        return [
            _bytes(self.torch, Buffer(b.name, tensors[b.name], 0, b.nbytes)) for b in self.buffers
        ]


def _extent(tensor: Any) -> int:
    """Bytes from the first to the last element."""
    if not tensor.numel():
        return 0
    last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    return int((last + 1) * tensor.element_size())


def _bytes(torch: Any, buffer: Buffer) -> Any:
    old = buffer.tensor.detach()
    if not buffer.nbytes:
        return np.zeros(0, np.uint8)
    flat = old.as_strided((buffer.nbytes // old.element_size(),), (1,))
    return flat.view(torch.uint8).cpu().numpy().copy()


class Witness:
    """Asks the witnesses of one launch."""

    def __init__(
        self, torch: Any, jit: Any, copies: Copies, args: Any, kwargs: Any, grid: Any, again: Any
    ) -> None:
        self.torch, self.jit, self.copies = torch, jit, copies
        self.args, self.kwargs, self.again = args, dict(kwargs), again
        names = inspect.signature(jit.fn).parameters
        self.named = {k: v for k, v in self.kwargs.items() if k in names}
        bound = {**dict(zip(jit.arg_names, args, strict=False)), **self.named}
        shape = grid(bound) if callable(grid) else grid
        self.grid: tuple[int, ...] = (*(int(n) for n in shape), 1, 1)[:3]
        self.after: list[Any] = [] if copies.why else copies.now()
        self._moved: list[Any] | None = None
        self._said: list[Any] | None = None

    def _given(self, tensors: Mapping[str, Any]) -> list[Any]:
        names = self.jit.arg_names
        return [tensors.get(k, v) for k, v in zip(names, self.args, strict=False)]

    def interpreter(
        self, subject: Any, rng: random.Random, sample: int, large: int, text: str
    ) -> str:
        """Triton's interpreter on the CPU; why there is no answer, else ""."""
        total = self.grid[0] * self.grid[1] * self.grid[2]
        only = None
        if total > large:
            if "atomic" in (text or self._source()):
                return f"of {total} programs a sample says nothing: it uses atomics"
            only = {self._place(at) for at in {0, total - 1, *rng.sample(range(total), sample)}}
        tensors = self.copies.tensors(self.copies.before, "cpu")
        named = {k: tensors.get(k, v) for k, v in self.named.items()}
        try:
            interpreted.run(self.jit, self._given(tensors), named, self.grid, only)
        except interpreted.NoAnswer as error:
            return str(error)
        said = self.copies.bytes_of(tensors)
        name = "interpreter" if only is None else f"interpreter, {len(only)} of {total} programs"
        subject["witnesses"].append(self.held("interpreter", name, said, only is not None))
        if only is None:
            self._said = said
        return ""

    def _place(self, at: int) -> tuple[int, int, int]:
        x, y, _ = self.grid
        return at % x, at // x % y, at // (x * y)

    def _source(self) -> str:
        try:
            return inspect.getsource(self.jit.fn)
        except OSError:
            return "atomic"  # not known: taken to be there

    def warps(self, subject: Any, warps: int) -> None:
        """The same kernel with another number of warps, on copies."""
        other = warps // 2 if warps > 1 else 2
        ran = self._rerun(self.copies.before, num_warps=other)
        if ran is not None:
            subject["witnesses"].append(self.held("warps", f"{other} warps", ran))

    def _rerun(self, contents: Sequence[Any], **options: Any) -> list[Any] | None:
        if self.again is None:
            return None
        device = self.copies.buffers[0].tensor.device
        tensors = self.copies.tensors(contents, device)
        moved = {k: tensors[k] for k in self.named if k in tensors}
        try:
            self.again(self._given(tensors), **moved, **options)
            self.torch.cuda.synchronize()
        except Exception:
            return None
        return self.copies.bytes_of(tensors)

    def candidate(self, name: str, before: Sequence[Any], theirs: Sequence[Any]) -> Any:
        """What another build gave, from the same contents of what is written; None: not known."""
        same = all(np.array_equal(a, b) for a, b in zip(self.copies.before, before, strict=True))
        mine = self.after if same else self._rerun(before)
        if mine is None:
            return None
        return self.held("candidate", name, theirs, mine=mine, before=before)

    def held(
        self,
        kind: str,
        name: str,
        theirs: Sequence[Any],
        part: bool = False,
        mine: Sequence[Any] | None = None,
        before: Sequence[Any] | None = None,
    ) -> Any:
        """What a witness says; a difference is held against the kernel's own sensitivity."""
        copies = self.copies

        def told(moved: Any = None, ours: Any = None) -> Any:
            return values.held(
                self.torch,
                copies.arguments,
                before or copies.before,
                ours or mine or self.after,
                theirs,
                moved,
                part,
            )

        first = told()
        if not first["agrees"]:
            second = told(self._movement())
            if second["agrees"]:
                first = {**second, "sensitive": True}
        if not first["agrees"] and self._said is not None and kind != "interpreter":
            backed = told(self._movement(), self._said)["agrees"]
            first["backed"] = ["interpreter"] if backed else []
        return {"kind": kind, "name": name, **first}

    def _movement(self) -> list[Any] | None:
        if self._moved is None:
            copies, runs = self.copies, []
            for seed in (1, 2):
                inputs = values.nudged(self.torch, copies.arguments, copies.before, seed)
                ran = self._rerun(inputs)
                if ran is not None:
                    runs.append(ran)
            base = self.after
            self._moved = values.movement(self.torch, copies.arguments, base, runs or [base])
        return self._moved
