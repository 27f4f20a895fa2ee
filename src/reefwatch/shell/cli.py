"""The command line: one table of verbs, each loaded when it is used."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from reefwatch.core.errors import ReefwatchError, UsageError


@dataclass(frozen=True)
class Verb:
    """A verb with its line of help; without a module it is planned."""

    name: str
    help: str
    module: str | None = None


_COMMANDS = "reefwatch.shell.commands."
VERBS = (
    Verb("run", "run a script or module under watch, and judge it at its end", _COMMANDS + "run"),
    Verb("report", "judge recorded runs again and show the report", _COMMANDS + "report"),
    Verb("explain", "what a check looks at, why, and how to fix it", _COMMANDS + "explain"),
    Verb("doctor", "look over this machine: cards, driver, wheels", _COMMANDS + "doctor"),
    Verb(
        "plan",
        "one consistent set of driver, ROCm, torch and libraries for a card",
        _COMMANDS + "plan",
    ),
    Verb("lock", "freeze what computes here; name each drift from it", _COMMANDS + "lock"),
    Verb(
        "precision",
        "did low precision pay: speed and memory had against possible",
        _COMMANDS + "precision",
    ),
    Verb(
        "trace", "audit a profiler trace taken anywhere; classify kernel names", _COMMANDS + "trace"
    ),
    Verb("compare", "two references, any devices: where do they part", _COMMANDS + "compare"),
    Verb(
        "bisect",
        "the first environment that leaves the reference, and the op",
        _COMMANDS + "bisect",
    ),
    Verb(
        "resume-check",
        "does save, load, continue equal the uninterrupted run",
        _COMMANDS + "resume_check",
    ),
    Verb(
        "compile-check",
        "does compiled code compute what the model says",
        _COMMANDS + "compile_check",
    ),
    Verb(
        "kernels",
        "Triton kernels on a virtual AMD GPU, against independent witnesses",
        _COMMANDS + "kernels",
    ),
    Verb("triage", "from an error log to the layer that failed and the fix", _COMMANDS + "triage"),
    Verb("dist", "collectives and parallel training do what they promise", _COMMANDS + "dist"),
    Verb("ci", "workflow files for ROCm runners; an upstream suite under watch", _COMMANDS + "ci"),
)
"""All verbs of the product, in the order of the help."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. As a process's entry (no `argv`) Ctrl-C ends it by signal."""
    if argv is not None:
        return _dispatch(list(argv))
    _leave_start_folder()
    code = _dispatch(sys.argv[1:])
    if code == -signal.SIGINT:
        _die_of_interrupt()
    return code


def say(text: str) -> None:
    """One message on stderr. A stderr that is closed or full is no reason to fail."""
    from reefwatch.shell import screen

    if screen.STDERR.stream is None:
        screen.STDERR.keep()
    line = "\\n".join(text.splitlines())  # a name may hold a line end; a message is one line
    screen.STDERR.write(f"reefwatch: {line}\n")


def _dispatch(argv: list[str]) -> int:
    from reefwatch.shell import screen

    screen.STDERR.keep()
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(usage(), file=sys.stdout if argv else sys.stderr)
        return 0 if argv else 2
    if argv[0] in ("-V", "--version"):
        from reefwatch import __version__

        print(f"reefwatch {__version__}")
        return 0
    try:
        return _call(argv[0], argv[1:])
    except ReefwatchError as error:
        _say_once(str(error))
        return 2
    except KeyboardInterrupt:
        return -signal.SIGINT
    except BrokenPipeError:  # `reefwatch report DIR | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except Exception as error:
        if os.environ.get("REEFWATCH_DEBUG"):
            raise
        _say_once(f"{type(error).__name__}: {error} (this is a fault of reefwatch)")
        return 2


def _call(name: str, argv: list[str]) -> int:
    from importlib import import_module

    verb = next((verb for verb in VERBS if verb.name == name), None)
    if verb is None:
        from difflib import get_close_matches

        near = get_close_matches(name, [verb.name for verb in VERBS], n=1)
        hint = f"did you mean {near[0]!r}?" if near else "`reefwatch --help` lists them"
        if os.path.exists(name):
            hint = f"to run it: reefwatch run {name}"
        raise UsageError(f"there is no verb {name!r}; {hint}")
    if verb.module is None:
        raise UsageError(f"{name}: not in this version yet")
    code: int = import_module(verb.module).main(argv)
    return code


def usage() -> str:
    """The help of the whole command."""
    from textwrap import wrap

    made = [verb for verb in VERBS if verb.module]
    width = max(len(verb.name) for verb in made)
    lines = [f"  {verb.name:<{width}}  {verb.help}" for verb in made]
    planned = " ".join(verb.name for verb in VERBS if not verb.module)
    return "\n".join(
        [
            "usage: reefwatch [--version] [--help] VERB ...",
            "",
            "Proves that a PyTorch run did what it claims.",
            "",
            *lines,
            "",
            *wrap(f"planned: {planned}", 80, break_on_hyphens=False),
            "",
            "`reefwatch VERB --help` tells the options of a verb.",
        ]
    )


def _say_once(text: str) -> None:
    """An error of a launch with several processes is told by its first rank."""
    from reefwatch.core import launch

    if launch.read(os.environ).rank == 0:
        say(text)


def _leave_start_folder() -> None:
    """Drop the folder that python put first on the path for us; the runner puts the script's there.

    It is the working folder under `python -m reefwatch`, where a `json.py` of the user's may lie.
    """
    if not getattr(sys.flags, "safe_path", False) and not sys.flags.isolated and sys.path:
        del sys.path[0]


def _die_of_interrupt() -> NoReturn:
    """End as python does after Ctrl-C: atexit handlers run, then the process dies of the signal."""
    told = sys.excepthook

    def silent(*error: object) -> None:
        sys.excepthook = told

    sys.excepthook = silent  # the traceback was printed already
    raise KeyboardInterrupt
