"""The stage at fault: compiled anew, one stage more each time, with the same history of calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from reefwatch.gather.compiled.guard import Later
from reefwatch.gather.compiled.trial import RANDOM, SUM, Rules, Trial, Verdict, judge_again

STAGES = (
    ("eager", "dynamo"),
    ("aot_eager", "aotautograd"),
    ("aot_eager_decomp_partition", "decomposition or partition"),
)
"""Backends that stop after a stage, and the stage."""
LAST = "inductor"


def prepared(later: Later) -> None:
    """The originals are called in runs of ours, in the modes of the call."""
    for trial in (later.trial, *later.history):
        trial.later = True
        trial.function = later.use.original


def labels(path: str) -> tuple[str, ...]:
    """The gradients to take so that a mismatch at `path` shows."""
    if not path.startswith("gradient"):
        return ()
    return (RANDOM,) if RANDOM in path else (SUM,) if SUM in path else (RANDOM, SUM)


def compiled_by(use: Any, backend: Any) -> Callable[..., Any]:
    """The original, compiled anew with the same settings by another backend."""
    torch._dynamo.reset()
    settings = use.settings
    fullgraph, dynamic = settings["fullgraph"], settings["dynamic"]
    return torch.compile(use.function, backend=backend, fullgraph=fullgraph, dynamic=dynamic)  # type: ignore[no-any-return]


def with_history(later: Later, compiled: Callable[..., Any]) -> None:
    """The calls before it: some bugs need an earlier one."""
    for trial in later.history:
        trial.run(compiled, (), eager=False)


def tried(later: Later, backend: Any, path: str) -> Verdict:
    """The call under one backend."""
    compiled = compiled_by(later.use, backend)
    with_history(later, compiled)
    wanted = labels(path) or ((RANDOM, SUM) if path == "exception" else ())
    return judge_again(later.trial, compiled, Rules(strict_casts=later.strict), wanted)


def stage(later: Later, path: str, going: Callable[[], bool]) -> tuple[str, Any]:
    """(the first stage whose results depart, its backend); ("", None) when time ran out."""
    for backend, name in STAGES:
        if not going():
            return "", None
        if tried(later, backend, path).differences:
            return name, backend
    own = later.use.backend
    if later.use.settings["backend"] not in ("inductor", ""):
        return f"the backend {later.use.settings['backend']}", own
    if not going():
        return "", None
    if not tried(later, own, path).differences:
        return "not seen again when compiled anew", None
    return LAST, own


def again(trial: Trial, compiled: Callable[..., Any], path: str, strict: bool) -> Verdict:
    """One call judged again for what is wrong at `path` alone."""
    return judge_again(trial, compiled, Rules(strict_casts=strict), labels(path))
