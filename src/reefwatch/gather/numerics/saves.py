"""When does a program write a checkpoint: a save that holds tensors of the training."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from reefwatch.gather.imports import PostImport
from reefwatch.gather.patches import Patches

MOST = 100_000
"""Values of one save that are looked at."""


class Saves:
    """Sees `torch.save`, `safetensors.torch` and `torch.distributed.checkpoint`.

    `params` gives the tensors that are trained, `saved` is told how they were written.
    """

    def __init__(
        self, torch: Any, params: Callable[[], list[Any]], saved: Callable[[str], None]
    ) -> None:
        self._torch, self._params, self._saved = torch, params, saved

    def install(self, patches: Patches) -> None:
        patches.replace(self._torch, "save", self._seen("torch.save"))
        for name, functions in (
            ("safetensors.torch", ("save_file", "save_model", "save")),
            ("torch.distributed.checkpoint", ("save", "async_save")),
        ):
            PostImport(name, partial(self._late, patches, name, functions)).start()

    def _late(self, patches: Patches, name: str, functions: tuple[str, ...]) -> None:
        module = sys.modules[name]
        for function in functions:
            if hasattr(module, function):
                patches.replace(module, function, self._seen(f"{name}.{function}"))

    def _seen(self, kind: str) -> Callable[[Any], Callable[..., Any]]:
        def make(original: Any) -> Callable[..., Any]:
            def save(*args: Any, **kwargs: Any) -> Any:
                out = original(*args, **kwargs)
                if self._trained([*args, *kwargs.values()]):
                    self._saved(kind)
                return out

            return save

        return make

    def _trained(self, given: list[Any]) -> bool:
        """True when a tensor among these is one that is trained, or has the values of one."""
        params = self._params()
        places = {p.untyped_storage().data_ptr() for p in params if p.device.type != "meta"}
        shapes = {tuple(p.shape) for p in params}
        for tensor in self._tensors(given):
            try:
                if tensor.untyped_storage().data_ptr() in places:
                    return True
            except (RuntimeError, NotImplementedError):
                continue
            if tuple(tensor.shape) in shapes and tensor.numel() > 1 and self._copy(tensor, params):
                return True
        return False

    def _copy(self, tensor: Any, params: list[Any]) -> bool:
        kept = tensor.detach().cpu()
        return any(
            p.dtype == kept.dtype
            and tuple(p.shape) == tuple(kept.shape)
            and self._torch.equal(p.detach().cpu(), kept)
            for p in params
        )

    def _tensors(self, values: Any) -> Iterator[Any]:
        waiting, looked = [values], 0
        while waiting and looked < MOST:
            value = waiting.pop()
            looked += 1
            if isinstance(value, self._torch.Tensor):
                yield value
            elif isinstance(value, self._torch.nn.Module):
                waiting += value.parameters()
            elif isinstance(value, Mapping):
                waiting += value.values()
            elif isinstance(value, (list, tuple)):
                waiting += value
