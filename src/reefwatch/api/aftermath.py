"""What is done about compiled code when a watched run is over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from reefwatch.api.settings import Settings
from reefwatch.core.ports import Sink


def after(
    kept: list[Any],
    sink: Sink,
    folder: Path | None,
    settings: Settings,
    say: Callable[[str], None],
) -> None:
    """Explain the mismatches of a run that is over, and judge what had to wait."""
    from reefwatch.experiments.compiled.after import Aftermath
    from reefwatch.gather.compiled.trial import Rules

    rules = Rules(settings.referee, settings.strict_casts)
    Aftermath(sink, folder, settings.locate, say, rules).work(kept)
    kept.clear()
