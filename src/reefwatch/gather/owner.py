"""Which thread the watch looks at: the first that trains owns the steps until it ends."""

from __future__ import annotations

from typing import Any

from reefwatch.gather import key, mode
from reefwatch.gather.patches import get_ident, is_python_thread, threads


class Owner:
    """The thread that steps; till there is training, the first that calls a module."""

    def __init__(self, watch: Any) -> None:
        self.thread = 0
        """The thread that steps."""
        self.stale: set[int] = set()
        """Threads on which the op layer was entered and could not be left."""
        self._others: set[int] = set()
        """Other threads that trained meanwhile; nothing of theirs is looked at."""
        self._watch = watch

    @property
    def others(self) -> int:
        """How many other threads trained meanwhile."""
        return len(self._others - {self.thread})

    def may(self, ident: int, what: str) -> bool:
        """True when a moment on this thread counts. It may become the owner by it.

        `what` is `any`, or what the thread is doing: `training`, or `calling` a module.
        """
        guarded = self._watch._guarded
        if self.stale and ident in self.stale:
            guarded("threads", self.sweep)
        if ident == self.thread or self._admits(ident, what):
            return True
        if what == "training" and ident not in self._others:
            guarded("threads", self._pass_over)
        return False

    def _admits(self, ident: int, what: str) -> bool:
        watch = self._watch
        if what == "any":
            return True
        if watch._moments is not None and not is_python_thread(ident):
            return True  # a thread of the autograd engine: part of the owner's backward pass
        settled = watch._trains or (what == "calling" and watch._roots.anchor is not None)
        if settled and self.thread in threads():
            return False
        layer = watch._window.layer
        if watch._busy or (layer is not None and layer.telling):
            return False  # the owner was interrupted while an instrument looks: not now
        self._take(ident, what)
        return True

    def _take(self, ident: int, what: str) -> None:
        window, calls = self._watch._window, self._watch._calls
        if window.inside:  # entered on a thread that does not step
            self.stale.add(self.thread)
            window.layer.leave()
            if what == "training" or calls is None or not calls.outermost():
                window.inside, window.missed = False, True  # of its step, a part was not seen
            else:
                window.layer.enter(self._watch._step)
            if calls is not None:
                calls.watch()  # that thread will be swept when it calls a module
        self.thread = ident

    def _pass_over(self) -> None:
        """Another thread trains at the same time; the record says that it was not looked at."""
        self._others.add(get_ident())
        if self._watch._window.layer is not None:
            self._watch._window.layer.miss_threads()

    def sweep(self) -> None:
        """Take off this thread what of ours another thread could not take off it."""
        watch = self._watch
        self.stale.discard(get_ident())
        if watch._moments is not None and watch._moments.movable():
            mode.sweep(watch._torch)
            key.settle()
        if not watch._window.overdue:
            watch._rest()
