"""A moment of the user's run, as the Watch meets it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from reefwatch.core.errors import Breach
from reefwatch.gather.guard import of_the_program
from reefwatch.gather.patches import get_ident, perf_counter

M = TypeVar("M", bound=Callable[..., None])


def moment(threads: str) -> Callable[[M], M]:
    """A method of the Watch for one sort of moment: what fails in it ends the watch, not the run.

    It is timed. `threads` says on which it counts: `any`, or the one that is `training` or
    `calling` modules.
    """

    def decorate(method: M) -> M:
        @functools.wraps(method)
        def guarded(self: Any, *args: Any) -> None:
            ident = get_ident()
            if not self.live or self._busy == ident:
                return
            if not self._owner.may(ident, threads):
                return
            self._busy, self._mark = ident, perf_counter()
            try:
                if self._breach is not None:
                    breach, self._breach = self._breach, None
                    raise breach
                method(self, *args)
            except Breach:
                raise
            except Exception as error:
                if of_the_program(error):
                    raise
                self._fail(method.__name__, error)
            finally:
                self._busy = 0
                self._fixed += perf_counter() - self._mark

        return guarded  # type: ignore[return-value]

    return decorate
