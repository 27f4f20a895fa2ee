"""Every monkey-patch, by name, reversible, originals kept first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Patches:
    """Attributes replaced, put back in reverse order."""

    def __init__(self) -> None:
        self._kept: list[tuple[Any, str, Any, bool]] = []

    def replace(self, owner: Any, attribute: str, make: Callable[[Any], Any]) -> None:
        """Put `make(original)` in place of `owner.attribute`."""
        own = attribute in vars(owner)
        original = getattr(owner, attribute)
        self._kept.append((owner, attribute, vars(owner).get(attribute, original), own))
        setattr(owner, attribute, make(original))

    def restore(self) -> None:
        """Put every original back."""
        while self._kept:
            owner, attribute, original, own = self._kept.pop()
            if own:
                setattr(owner, attribute, original)
            else:
                delattr(owner, attribute)
