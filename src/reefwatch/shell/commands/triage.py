"""`reefwatch triage LOG...`"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from reefwatch.core.errors import ReefwatchError, UsageError
from reefwatch.shell import options
from reefwatch.shell.cli import say


def parser() -> argparse.ArgumentParser:
    """The options of `triage`."""
    made = argparse.ArgumentParser(
        "reefwatch triage",
        description="From error logs to the layer that failed, its cause and the fix. "
        "Several logs are the ranks of one run. "
        "Ends with 3 when a failure is found, 0 when there is none, 2 when nothing could be read.",
        allow_abbrev=False,
    )
    made.add_argument(
        "logs", nargs="*", metavar="LOG", help="log files, packed or not; - or a pipe is stdin"
    )
    made.add_argument(
        "--last", action="store_true", help="the newest watched run, in place of logs"
    )
    made.add_argument("--json", action="store_true", help="the diagnosis as JSON on stdout")
    made.add_argument(
        "--machine",
        metavar="FACTS.json",
        help="what `reefwatch doctor --json` printed, to rule families out",
    )
    made.add_argument(
        "--redact", metavar="FILE", help="also write a copy of the logs that can be shared"
    )
    made.add_argument(
        "--bundle", metavar="FILE", help="also write one archive (zip) for a report upstream"
    )
    made.add_argument(
        "--require-proof", action="store_true", help="exit 4 when the family is not known"
    )
    return made


def main(argv: list[str]) -> int:
    """Run the verb; the exit code of the process."""
    from reefwatch.api import triage

    given = parser().parse_args(argv)
    for option in ("redact", "bundle"):
        if getattr(given, option) == "-":
            raise UsageError(f"--{option} -: give the name of a file (./- for one of that name)")
    if given.last and given.logs:
        raise UsageError("--last takes no log: give one or the other")
    options.targets(given, "redact", "bundle")
    if (
        given.redact
        and given.bundle
        and Path(given.redact).resolve() == Path(given.bundle).resolve()
    ):
        raise UsageError("--redact and --bundle name the same file")
    logs = given.logs
    if given.last:
        logs = triage.newest()
    elif not logs and not sys.stdin.isatty():
        logs = [triage.STDIN]
    if triage.STDIN in logs and (given.redact or given.bundle):
        raise UsageError("--redact and --bundle need the log as a file")
    answer = triage.triage(logs, machine=given.machine)
    if given.json:
        import json

        _print(json.dumps(answer.diagnosis.plain(), indent=2, ensure_ascii=False))
    elif answer.readable:
        from reefwatch.show import triage as show

        _print(show.text(answer.diagnosis.view(), answer.remarks))
    if not answer.readable:
        for remark in answer.unread:
            say(remark)
        return 2
    if given.json:
        for remark in answer.remarks:
            say(remark)
    if given.redact:
        count = triage.redact(answer.read, given.redact)
        say(f"{given.redact}: {count} lines")
    if given.bundle:
        from reefwatch.api import triage_bundle

        say(
            f"{given.bundle}: {', '.join(triage_bundle.write(answer, given.bundle, given.machine))}"
        )
    if given.require_proof and answer.diagnosis.failed and answer.diagnosis.family is None:
        return 4
    if answer.diagnosis.failed:
        return 3
    return 2 if answer.unread else 0  # in what was not read there may be a failure


def _print(text: str) -> None:
    """To stdout, at once. Raises ReefwatchError when it takes no more."""
    if sys.stdout is None:
        raise ReefwatchError("stdout is closed: the answer is not told")
    try:
        raw = (text + "\n").encode(sys.stdout.encoding or "utf-8", "backslashreplace")
        sys.stdout.flush()
        stream = getattr(sys.stdout, "buffer", None)
        if stream is None:
            sys.stdout.write(text + "\n")
        else:
            stream.write(raw)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left must not fail again at the end
        why = error.strerror or error
        raise ReefwatchError(f"stdout cannot be written ({why}): the answer is not told") from None
