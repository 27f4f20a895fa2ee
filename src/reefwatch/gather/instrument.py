"""What an instrument is, and the moments of a run that it may look at.

The Watch (watch.py) finds the moments and calls every instrument at each; the op layer (ops.py)
adds one OpCall per dispatched op, in examined steps only. A failure inside an instrument is caught
by the Watch, recorded as the fact `errored.<name>`, and turns that instrument off; it never
reaches the user's run. The one exception that passes is `core.errors.Breach`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reefwatch.core.ports import Referee, Sink


@dataclass(frozen=True)
class Tools:
    """What the Watch hands to each instrument when torch is there."""

    torch: Any
    sink: Sink
    clock: Callable[[], float]
    """Seconds, monotonic; kept before the script could mock it."""
    referee: Referee | None
    """Given in strict mode only."""
    options: dict[str, Any]


class Instrument:
    """Does nothing at every moment; an instrument overrides the moments that it needs.

    Cost rules: `on_step` and the update/backward moments come in every step and may cost
    microseconds; `on_op` comes only in examined steps. Nothing here may touch the random state,
    synchronise the device outside an examined step, write to a tensor of the user's, or keep one
    alive longer than its step.
    """

    name: str = ""
    contract: str = ""
    wants_ops: bool = False
    """True when `on_op` is to be called in examined steps."""
    wants_before: bool = False
    """True when `before_op` is to be called ahead of each op."""
    wrapped: bool = False
    """True when `on_op` only reads dtypes and shapes, and so may see the wrapped tensors inside
    torch.func's transforms. Computing with those can end the process."""
    every: int = 1
    """Opened in every so many of the examined steps only: for an instrument that costs more."""
    on_ladder: bool = False
    """Opened in steps that are examined for a reference alone, after the exam."""
    passing: bool = False
    """Set by the Watch in a step that is passed over to keep to the budget: count, do not look."""

    def arm(self, tools: Tools) -> None:
        """Torch has just been imported (or the watch has just begun)."""

    def on_optimizer(self, optimizer: Any) -> None:
        """An optimizer was built."""

    def open(self, step: int) -> None:
        """An examined step begins, on the thread that trains."""

    def close(self, step: int) -> bool:
        """The examined step ends: write what is new. True when something new was learned."""
        return False

    def wants_glimpse(self) -> bool:
        """True when ops of an evaluation are wanted in a step that is not examined."""
        return False

    def glimpse(self, step: int) -> None:
        """The first ops of a block without gradients follow, outside an examined step; then close.

        Asked of those that want it, at most some ten times in a run.
        """

    def hears(self, func: Any, name: str, phase: str) -> bool:
        """True when this op matters to it in this phase. Asked once per step of each such pair."""
        return True

    def on_op(self, call: Any) -> None:
        """One dispatched op of an examined step: a gather.ops.OpCall."""

    def before_op(self, func: Any, args: Any, kwargs: Any) -> None:
        """An op of an examined step is about to run: what it writes over is still as it was."""

    def before_backward(self, loss: Any) -> None:
        """`Tensor.backward` is called on `loss`. Every step."""

    def after_backward(self, loss: Any) -> None:
        """`Tensor.backward` returned."""

    def before_clip(self, optimizer: Any) -> None:
        """The gradients of `optimizer` are complete and not clipped yet: a trainer says so."""

    def before_update(self, optimizer: Any, examined: bool) -> None:
        """An optimizer's `step` begins. Every step."""

    def after_update(self, optimizer: Any, examined: bool) -> None:
        """An optimizer's `step` returned. Every step."""

    def on_step(self, step: int, seconds: float, examined: bool) -> None:
        """A step has ended. Every step; `seconds` since the previous boundary."""

    def tell(self) -> None:
        """Write totals and facts as they stand: the run may be killed before it ends.

        Comes a few dozen times in a run at most. Only what later totals replace may be written.
        """

    def disarm(self) -> None:
        """The run is over: write totals and facts, put everything back."""

    def release(self) -> None:
        """It has failed and is off: put back what it patched, let go of what it holds."""
