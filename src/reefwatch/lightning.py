"""Lightning's door: `from reefwatch.lightning import Guard`, one line in `Trainer(callbacks=...)`.

Works with `lightning` and with `pytorch_lightning` 2.5 and newer: the one that the program has
imported is used, the other is never imported. See docs/lightning.md.
"""

from __future__ import annotations

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
    from reefwatch.api.preflight import Preflight
    from reefwatch.core.report import Report

__all__ = ["Guard", "guard", "preflight"]  # noqa: F822 - Guard is made when it is asked for

_ROOTS = ("lightning.pytorch", "pytorch_lightning")


def _root() -> Any:
    """The Lightning that the program uses. Raises ReefwatchError when there is none."""
    loaded = [name for name in _ROOTS if name in sys.modules]
    for name in loaded or _ROOTS:
        try:
            return import_module(name)
        except ModuleNotFoundError as error:
            if error.name not in ("lightning", "pytorch_lightning"):
                raise
    raise ReefwatchError("Lightning is not installed: pip install lightning")


class _Guard:
    """What is asked of `Guard`, whichever Lightning its base class comes from.

    `claim` is taken from `Trainer(precision=...)` when it is not given; the other settings are
    those of `reefwatch.watch`. `out` is `reefwatch/` beside the logger's files when not given.
    After `fit`, `report` holds what held and what is broken (on rank 0) and `folder` where it
    lies. `fail` raises at the end of `fit` when a claim is broken at error level.
    Raises UsageError for unknown words.
    """

    def __init__(self, *, fail: bool = False, **settings: Any) -> None:
        from reefwatch.api.settings import Settings

        Settings.of(**settings)  # a wrong word is told here, not in the middle of the training
        self.fail = fail
        self.stepped_aside = ""
        """Why nothing was looked at; empty when it was."""
        self.folder: Path | None = None
        self._settings = settings
        self._asked: str | None = None
        self._guarding: Guarding | None = None
        self._epochs = 0
        self._counts: dict[str, int] | None = None

    @property
    def report(self) -> Report | None:
        """The report; None until the run is over, and on ranks other than 0."""
        return None if self._guarding is None else self._guarding.report

    @property
    def state_key(self) -> str:
        # Lightning asks a callback with a state for it inside of `Trainer.__init__`: the one moment
        # at which the precision stands as the script wrote it.
        if self._asked is None:
            self._asked = _written_precision(sys._getframe(1))
        return type(self).__qualname__

    def state_dict(self) -> dict[str, Any]:
        """Nothing goes into checkpoints."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_guarding": None}  # ddp_spawn hands the callback to processes

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Begin, before the optimizers are made."""
        if self._guarding is not None and self._guarding.on:
            return
        if getattr(trainer, "barebones", False):
            self.stepped_aside = "Trainer(barebones=True) is for measuring raw speed"
            return
        guarding = Guarding(**self._settings)
        guarding.begin(asked(trainer, self._asked), _beside_logger(trainer))
        self._guarding, self.folder = guarding, guarding.folder

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """The gradients are unscaled and complete; Lightning clips them next."""
        if self._guarding is not None:
            self._guarding.gradients_ready(optimizer)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """At the end of an epoch, one number for the progress bar: claims broken so far.

        Looked at after the first, second, fourth... epoch. Logged for the step: for an epoch
        Lightning would want the processes to agree on it.
        """
        if self._guarding is None or not self._guarding.on or not trainer.is_last_batch:
            return
        self._epochs += 1
        if self._counts is None or not self._epochs & (self._epochs - 1):
            self._counts = self._guarding.so_far() or self._counts
        if self._counts is not None:
            value = float(self._counts["errors"])
            pl_module.log("reefwatch/errors", value, prog_bar=True, on_step=True, on_epoch=False)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """The training ends with an exception: what was seen until then is judged."""
        self._end(trainer, exception)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Stop, judge, and tell the logger."""
        self._end(trainer, None)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """For validate, test and predict alone, which have no end of their own."""
        self._end(trainer, None)

    def _end(self, trainer: Any, error: BaseException | None) -> None:
        if self._guarding is None or not self._guarding.on:
            return
        report = self._guarding.end(error)
        if report is None:
            return
        counts = broken(report)
        sys.stderr.write(screen(report) + "\n")
        for logger in trainer.loggers:
            metrics = {f"reefwatch/{name}": float(count) for name, count in counts.items()}
            logger.log_metrics(metrics, step=trainer.global_step)
            logger.save()
        if self.fail and counts["errors"] and error is None:
            raise ReefwatchError(f"{counts['errors']} claims are broken: see {self.folder}")


def _written_precision(frame: Any) -> str | None:
    """The argument `precision` of the Trainer that is being built, as the script wrote it."""
    for _ in range(12):
        if frame is None:
            return None
        known = frame.f_locals
        if frame.f_code.co_name == "__init__" and "barebones" in known and "precision" in known:
            written = known["precision"]
            return "32-true" if written is None else str(written)
        frame = frame.f_back
    return None


def asked(trainer: Any, precision: str | None) -> Asked:
    """What a Trainer is configured for."""
    limit = getattr(trainer, "gradient_clip_val", None)
    clip = None
    if limit:
        algorithm = getattr(trainer, "gradient_clip_algorithm", None) or "norm"
        clip = {"limit": float(limit), "algorithm": str(getattr(algorithm, "value", algorithm))}
    words = {
        "strategy": type(trainer.strategy).__name__,
        "accelerator": type(trainer.accelerator).__name__,
        "devices": trainer.num_devices,
        "nodes": trainer.num_nodes,
        "accumulate": trainer.accumulate_grad_batches,
        "precision_plugin": type(trainer.precision_plugin).__name__,
    }
    return Asked(
        f"lightning {_version(trainer)}",
        precision,
        str(trainer.precision),
        Launch(trainer.global_rank, trainer.world_size, trainer.local_rank, trainer.num_devices),
        clip,
        words,
    )


def _version(thing: Any) -> str:
    root = sys.modules.get(type(thing).__module__.partition(".")[0])
    return str(getattr(root, "__version__", "of unknown version"))


def _beside_logger(trainer: Any) -> Path:
    folder = trainer.log_dir or trainer.default_root_dir
    return Path(str(folder)) / "reefwatch"


@contextmanager
def guard(fabric: Any, **settings: Any) -> Iterator[Guarding]:
    """Watch a block of training with Fabric, after its `launch`.

    `with guard(fabric) as g: ...`; `g.report` is there afterwards, on rank 0.
    Settings are those of `reefwatch.watch`.
    Raises UsageError for unknown words.
    """
    guarding = Guarding(**settings)
    world = int(fabric.world_size)
    beside = max(1, world // max(1, int(getattr(fabric.strategy, "num_nodes", 1) or 1)))
    chosen = str(getattr(fabric.strategy.precision, "precision", "unknown"))
    launch = Launch(int(fabric.global_rank), world, int(fabric.local_rank), beside)
    words = {"strategy": type(fabric.strategy).__name__, "devices": beside}
    told = Asked(f"lightning fabric {_version(fabric)}", None, chosen, launch, None, words)
    guarding.begin(told, None)
    try:
        yield guarding
    except BaseException as error:
        guarding.end(error)
        raise
    guarding.end()


_STRATEGIES = {
    "SingleDeviceStrategy": "auto",
    "DDPStrategy": "ddp",
    "FSDPStrategy": "fsdp",
    "DeepSpeedStrategy": "deepspeed",
}
"""Strategies that are tried before a training, by their class; each in its default form."""


def preflight(trainer: Any, *, compile: Any = False, seconds: float = 300.0) -> Preflight:
    """Try the exact combination of a Trainer on this machine, before its `fit`.

    A small model is trained for a few batches in a process of its own, with the trainer's precision
    as the script wrote it, strategy, devices, accumulation and clipping, each op held against
    float64. `compile` is True or the options of `torch.compile` when the model is compiled. Prints
    nothing; `print(preflight(trainer))` tells all. Of several processes only the first tries.
    """
    import os

    from reefwatch.api import preflight as trial

    strategy = type(trainer.strategy).__name__
    written = next((c._asked for c in trainer.callbacks if isinstance(c, _Guard)), None)
    clip = asked(trainer, None).clip or {}
    accelerator = type(trainer.accelerator).__name__.removesuffix("Accelerator").lower()
    ids = getattr(trainer, "device_ids", None)
    combination = {
        "precision": written or str(trainer.precision),
        "strategy": _STRATEGIES.get(strategy, strategy),
        "accelerator": accelerator,
        "devices": trainer.num_devices if accelerator == "cpu" or not ids else list(ids),
        "devices_count": trainer.num_devices,
        "accumulate": trainer.accumulate_grad_batches,
        "clip": clip.get("limit"),
        "algorithm": clip.get("algorithm"),
        "compile": compile,
    }
    untried = []
    if trainer.num_nodes > 1:
        untried.append(f"{trainer.num_nodes} nodes: the devices of this one only")
    if strategy not in _STRATEGIES:
        return trial.Preflight(combination, "", None, (f"the strategy {strategy} is not known",))
    if os.environ.get("LOCAL_RANK", "0") != "0" or os.environ.get("RANK", "0") != "0":
        return trial.Preflight(combination, "", None, ("the first process tries",))
    return trial.lightning(combination, tuple(untried), seconds)


_made: dict[str, Any] = {}


def __getattr__(name: str) -> Any:
    if name != "Guard":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    root = _root()
    if root.__name__ not in _made:
        bases = (_Guard, root.Callback)
        _made[root.__name__] = type(
            "Guard", bases, {"__module__": __name__, "__doc__": _Guard.__doc__}
        )
    return _made[root.__name__]


if __name__ == "__main__":  # the process of a preflight
    import json

    from reefwatch.api import preflight as _trial
    from reefwatch.lightning import Guard as _OfTrial

    _trial.fit(_root(), _OfTrial, json.loads(sys.argv[1]))
