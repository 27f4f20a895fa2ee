"""Which of the exceptions of one process is the one that the others only pass on."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reefwatch.triage.scan import Sighting
from reefwatch.triage.tracebacks import Raised

Chain = Sequence[tuple[Raised, Sighting]]


def deciding(said: Chain, going: Sequence[int]) -> Chain:
    """Of the chains of a stream the last one; what it only passes on or follows from comes before.

    A launcher prints its own traceback after those of its processes, a parent after that of its
    child, and a child that lost its parent after the parent's; without prefixes all in one stream.
    `going`: the lines at which the run is seen to go on.
    """
    chains: dict[int, list[tuple[Raised, Sighting]]] = {}
    for pair in said:
        chains.setdefault(pair[0].chain, []).append(pair)
    groups = list(chains.values())
    told = [group for group in groups if not _follows(root(group)[0])]
    if not told:
        return groups[-1]
    last = told[-1]
    if _is_child(root(last)[0]):
        return last
    at, line = len(told) - 1, root(last)[1].line
    while at and _is_child(root(told[at - 1])[0]):
        if any(root(told[at - 1])[1].line < number < line for number in going):
            break
        at -= 1
    return told[at]


def _follows(raised: Raised) -> bool:
    """True for what follows from another exception: a launcher's, a child's, one in `__del__`."""
    if raised.ignored or WRAPPERS.search(raised.kind) is not None:
        return True
    return _is_child(raised) and _ORPHAN.search(raised.kind) is not None


_ORPHAN = re.compile(r"(?:EOFError|BrokenPipeError|Connection\w*Error|KeyboardInterrupt)$")
"""What a process meets whose parent is gone."""


def _is_child(raised: Raised) -> bool:
    """True for the traceback of a process of `multiprocessing`."""
    return bool(raised.frames) and raised.frames[0][2] == "_bootstrap"


def root(chain: Chain) -> tuple[Raised, Sighting]:
    """The exception that the others were raised from; with `during handling`, the later one."""
    at = len(chain) - 1
    while at > 0 and (chain[at][0].caused or WRAPPERS.search(chain[at][0].kind)):
        at -= 1
    return chain[at]


WRAPPERS = re.compile(
    r"(?:ChildFailedError|ProcessRaisedException|ProcessExitedException|BackendCompilerFailed|InductorError"
    r"|RayTaskError|RayActorError|ActorDiedError|WorkerCrashedError|EngineDeadError|BrokenProcessPool"
    r"|CalledProcessError|DistBackendError|DistStoreError|SystemExit|KeyboardInterrupt|SubprocessError"
    r"|SignalException|ExceptionGroup)"
)
