"""Forks of a watched process: the parent counts them, the child is not watched."""

from __future__ import annotations

import os
import weakref
from typing import Any

from reefwatch.gather import patches

watches: weakref.WeakSet[Any] = weakref.WeakSet()
"""Those that are on."""


def _in_parent() -> None:
    for watch in list(watches):
        watch.forks += watch.live


def _in_child() -> None:
    if watches:
        patches.restore_all()
    for watch in list(watches):
        watch.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_parent=_in_parent, after_in_child=_in_child)
