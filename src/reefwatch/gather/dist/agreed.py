"""`--strict=dist`: before each collective all ranks agree on what it is.

The signature (call, shapes, dtypes, operation, group) goes through the job's store, which costs a
round trip for each call, and is asked for by name. Collectives that DDP and FSDP issue in C++ are
not seen. A rank that does not come within the allowance is told as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from reefwatch.core.errors import Breach
from reefwatch.gather.dist import group
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.loop.place import user_place
from reefwatch.gather.patches import Patches

NAMES = (
    "all_reduce",
    "reduce",
    "broadcast",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_single",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "reduce_scatter_single",
    "all_to_all",
    "all_to_all_single",
    "gather",
    "scatter",
    "barrier",
)
_WAIT = 60.0


class Agreed(Instrument):
    """Raises Breach in the user's own frame, on each rank, before the collective is issued."""

    name = "dist.agreed"
    contract = "dist"

    def __init__(self) -> None:
        self._patches = Patches()
        self._stores: dict[str, Any] = {}
        self._numbers: dict[str, int] = {}
        self._inside = False

    def arm(self, tools: Tools) -> None:
        self._tools, self._torch = tools, tools.torch
        self._wait = float(tools.options.get("hang") or _WAIT)
        dist = getattr(tools.torch, "distributed", None)
        if tools.referee is None or dist is None or not dist.is_available():
            return
        for name in NAMES:
            if hasattr(dist, name):
                self._patches.replace(dist, name, self._wrapping(name))

    def _wrapping(self, name: str) -> Callable[[Any], Callable[..., Any]]:
        def make(original: Any) -> Callable[..., Any]:
            def checked(*args: Any, **kwargs: Any) -> Any:
                self.agree(name, args, kwargs)
                return original(*args, **kwargs)

            return checked

        return make

    def agree(self, name: str, args: Any, kwargs: Any) -> None:
        """Raises Breach when the ranks call different things, or one does not come."""
        dist = group.module(self._torch)
        if dist is None or self._inside:
            return
        self._inside = True
        try:
            self._compare(dist, name, args, kwargs)
        finally:
            self._inside = False

    def _compare(self, dist: Any, name: str, args: Any, kwargs: Any) -> None:
        of = _group(args, kwargs)
        members = dist.get_process_group_ranks(of if of is not None else dist.group.WORLD)
        rank = dist.get_rank()
        if rank not in members:
            return
        key = ",".join(map(str, members))
        number = self._numbers[key] = self._numbers.get(key, 0) + 1
        store = self._store(dist, key)
        at = "{}:{}".format(*user_place())
        mine = signature(self._torch, name, args, kwargs)
        store.set(f"{number}/{rank}", json.dumps([mine, at]))
        keys = [f"{number}/{one}" for one in members]
        try:
            told = [json.loads(raw) for raw in store.multi_get(keys)]
        except Exception:
            absent = [r for r, k in zip(members, keys, strict=True) if not store.check([k])]
            words = (
                f"rank {', '.join(map(str, absent))} did not come to {mine} within {self._wait:g} s"
            )
            raise Breach(self._message(number, words, at)) from None
        if len({one for one, _ in told}) > 1:
            each = "; ".join(
                f"rank {r}: {one} at {where}" for r, (one, where) in zip(members, told, strict=True)
            )
            raise Breach(self._message(number, each, at))
        if number > 1:
            store.delete_key(f"{number - 1}/{rank}")

    def _message(self, number: int, words: str, at: str) -> str:
        file, _, line = at.rpartition(":")
        row = {"event": "ranks.call", "number": number, "words": words, "file": file, "line": line}
        referee = self._tools.referee
        told = referee.breach("dist", row) if referee is not None else None
        return told or words

    def _store(self, dist: Any, key: str) -> Any:
        """The place where these ranks agree; a job that was ended and begun anew has another."""
        own = dist.distributed_c10d._get_default_store()
        kept, made = self._stores.get(key, (None, None))
        if kept is not own:
            base = own.clone()
            base.set_timeout(timedelta(seconds=self._wait))
            made = dist.PrefixStore(f"reefwatch/call/{key}", base)
            self._stores[key] = own, made
        return made

    def disarm(self) -> None:
        self._patches.restore()

    def release(self) -> None:
        self._patches.restore()


def _group(args: Any, kwargs: Any) -> Any:
    """The process group of a call, given by name or by place; None for the world."""
    if kwargs.get("group") is not None:
        return kwargs["group"]
    return next((one for one in args if _is_group(one)), None)


def _is_group(value: Any) -> bool:
    return any(kind.__name__ == "ProcessGroup" for kind in type(value).__mro__)


def signature(torch: Any, name: str, args: Any, kwargs: Any) -> str:
    """What must be the same on all ranks: call, number of elements by dtype, operation, root."""
    words = [name]
    named = {k: v for k, v in kwargs.items() if k not in ("group", "async_op")}
    for value in (*args, *named.values()):
        if isinstance(value, torch.Tensor):
            shape = "x".join(map(str, value.shape))
            words.append(f"{shape} {str(value.dtype).removeprefix('torch.')}")
        elif type(value).__name__ in ("RedOpType", "ReduceOp"):
            words.append(str(value).rpartition(".")[2])
        elif isinstance(value, int) and not isinstance(value, bool):
            words.append(f"root {value}")
    if name in ("gather", "scatter", "all_gather", "all_to_all"):
        words = [name, *words[1:2]]  # the lists are on the root alone, or differ by intent
    if name in ("all_to_all_single", "all_to_all", "all_gather", "reduce_scatter"):
        words = [word if " " not in word else word.split()[1] for word in words]
    return " ".join(words)
