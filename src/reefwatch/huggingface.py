"""Hugging Face's door: `Trainer(callbacks=[reefwatch.huggingface.Guard()])`, and accelerate's.

See docs/huggingface.md.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reefwatch.api.guarding import Asked, Guarding, broken, screen
from reefwatch.core.errors import ReefwatchError
from reefwatch.core.launch import Launch

if TYPE_CHECKING:
    from reefwatch.core.report import Report

__all__ = ["Guard", "guard"]  # noqa: F822 - Guard is made when it is asked for

_WORDS = {"no": "32", "bf16": "bf16-mixed", "fp16": "16-mixed"}
"""Accelerate's words for a precision in ours."""


class _Guard:
    """What is asked of `Guard`, the callback of `transformers.Trainer`.

    `claim` is taken from `TrainingArguments` when it is not given; the other settings are those of
    `reefwatch.watch`. `out` is `reefwatch/` in the output folder when not given. After `train`,
    `report` holds what held and what is broken (on rank 0) and `folder` where it lies. `fail`
    raises at the end when a claim is broken at error level. Raises UsageError for unknown words.
    """

    def __init__(self, *, fail: bool = False, **settings: Any) -> None:
        from reefwatch.api.settings import Settings

        Settings.of(**settings)  # a wrong word is told here, not in the middle of the training
        self.fail = fail
        self.folder: Path | None = None
        self._settings = settings
        self._guarding: Guarding | None = None

    @property
    def report(self) -> Report | None:
        """The report; None until the training is over, and on ranks other than 0."""
        return None if self._guarding is None else self._guarding.report

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin; the model and the optimizer are there already."""
        self._end(None)  # an earlier `train` that raised
        guarding = Guarding(**self._settings)
        guarding.begin(asked(args), Path(args.output_dir) / "reefwatch")
        self._guarding, self.folder = guarding, guarding.folder
        atexit.register(self._end, None)  # nobody tells a callback of an exception

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Stop, judge, and tell the trainer's log."""
        report = self._end(state)
        counts = broken(report) if report is not None else {"errors": 0}
        if self.fail and counts["errors"]:
            raise ReefwatchError(f"{counts['errors']} claims are broken: see {self.folder}")

    def _end(self, state: Any) -> Report | None:
        atexit.unregister(self._end)
        if self._guarding is None or not self._guarding.on:
            return None
        report = self._guarding.end()
        if report is not None:
            sys.stderr.write(screen(report) + "\n")
            if state is not None:
                counts = {f"reefwatch/{name}": n for name, n in broken(report).items()}
                state.log_history.append({**counts, "step": state.global_step})
        return report


def asked(args: Any) -> Asked:
    """What `TrainingArguments` ask for, and what accelerate makes of it."""
    wanted = "bf16-mixed" if args.bf16 else "16-mixed" if args.fp16 else "32"
    clip = {"limit": float(args.max_grad_norm), "algorithm": "norm"} if args.max_grad_norm else None
    words = {
        "accumulate": args.gradient_accumulation_steps,
        "optimizer": str(getattr(args.optim, "value", args.optim)),
        "compile": bool(args.torch_compile),
        "strategy": str(getattr(args.parallel_mode, "value", args.parallel_mode)),
        "devices": args.world_size,
    }
    launch = Launch(
        args.process_index, args.world_size, args.local_process_index, _beside(args.world_size)
    )
    version = sys.modules["transformers"].__version__
    return Asked(f"transformers {version}", wanted, _chosen(wanted), launch, clip, words)


def _chosen(otherwise: str) -> str:
    """The precision that accelerate has settled on in this process."""
    state = import_module("accelerate.state").AcceleratorState
    if not state._shared_state:
        return otherwise
    word = str(state().mixed_precision)
    return _WORDS.get(word, word)


def _beside(world: int) -> int:
    import os

    told = os.environ.get("LOCAL_WORLD_SIZE", "")
    return int(told) if told.isdigit() else world


@contextmanager
def guard(accelerator: Any, **settings: Any) -> Iterator[Guarding]:
    """Watch a block of training with an `accelerate.Accelerator`.

    `with guard(accelerator) as g: ...`; `g.report` is there afterwards, on rank 0.
    Settings are those of `reefwatch.watch`.
    Raises UsageError for unknown words.
    """
    guarding = Guarding(**settings)
    word = str(accelerator.mixed_precision)
    chosen = _WORDS.get(word, word)
    world = int(accelerator.num_processes)
    launch = Launch(
        int(accelerator.process_index), world, int(accelerator.local_process_index), _beside(world)
    )
    words = {
        "accumulate": int(accelerator.gradient_accumulation_steps),
        "strategy": str(accelerator.distributed_type),
        "devices": world,
    }
    version = sys.modules["accelerate"].__version__
    guarding.begin(Asked(f"accelerate {version}", None, chosen, launch, None, words), None)
    try:
        yield guarding
    except BaseException as error:
        guarding.end(error)
        raise
    guarding.end()


_made: list[Any] = []


def __getattr__(name: str) -> Any:
    if name != "Guard":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if not _made:
        try:
            base = import_module("transformers").TrainerCallback
        except ModuleNotFoundError as error:
            raise ReefwatchError(
                "transformers is not installed: pip install transformers"
            ) from error
        kind = type("Guard", (_Guard, base), {"__module__": __name__, "__doc__": _Guard.__doc__})
        _made.append(kind)
    return _made[0]
