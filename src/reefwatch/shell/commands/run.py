"""`reefwatch run [options] script args...`"""

from __future__ import annotations

import argparse

from reefwatch.core.errors import UsageError
from reefwatch.core.report import Report
from reefwatch.shell import options, screen
from reefwatch.shell.cli import say


def parser() -> argparse.ArgumentParser:
    """The options before the script; all that follows it is the script's."""
    made = argparse.ArgumentParser(
        "reefwatch run",
        usage="reefwatch run [options] (SCRIPT | -m MODULE) [args...]",
        description="Run a script, folder, zip or module unchanged, and judge it at its end.",
        allow_abbrev=False,
    )
    made.add_argument("-m", dest="module", metavar="MODULE", help="run a module, as python -m does")
    made.add_argument("--out", metavar="DIR", help="the run's folder (default: reefwatch-runs/...)")
    made.add_argument(
        "--exam",
        type=options.seconds,
        default=20.0,
        metavar="20s",
        help="what the close look at the first steps may cost, once",
    )
    made.add_argument(
        "--budget",
        type=options.share,
        default=0.02,
        metavar="2%",
        help="share of the time that watching may cost after that",
    )
    made.add_argument(
        "--truth",
        action="store_true",
        help="compute each op of the exam once more, in float64 (give it time: --exam 60s)",
    )
    made.add_argument(
        "--kernels",
        action="store_true",
        help="hold the first launches of each Triton kernel against witnesses, on the card",
    )
    made.add_argument(
        "--on-mismatch",
        choices=("report", "eager", "raise"),
        default="report",
        help="what becomes of a call whose compiled code is wrong (default: the run goes on)",
    )
    made.add_argument(
        "--strict-casts",
        action="store_true",
        help="compiled code is to round where the original casts to fewer bits",
    )
    made.add_argument(
        "--referee",
        choices=("float64", "eager"),
        default="float64",
        help="eager: spare the float64 run of compiled calls that are judged",
    )
    made.add_argument(
        "--locate",
        type=options.seconds,
        default=120.0,
        metavar="120s",
        help="time after the run for the stage, op and repro of a mismatch; 0s for none",
    )
    made.add_argument("--record", metavar="REF", help="record a reference of this run here")
    made.add_argument(
        "--perturb",
        type=int,
        default=0,
        metavar="K",
        help="with --record: run K + 1 times more for the noise, all but one moved by one ulp",
    )
    made.add_argument("--light", action="store_true", help="with --record: keep one batch alone")
    made.add_argument(
        "--against",
        metavar="REF",
        help="follow a reference; its weights and batches are put in place of the run's own",
    )
    made.add_argument(
        "--batch",
        metavar="FILE",
        help="with --against CHECKPOINT.safetensors: one batch, and what is expected of it",
    )
    made.add_argument(
        "--max-size", type=options.size, metavar="64GiB", help="of the reference that is read"
    )
    made.add_argument("--noise", type=int, default=0, help=argparse.SUPPRESS)
    made.add_argument(
        "--hang",
        type=options.seconds,
        default=60.0,
        metavar="60s",
        help="with several ranks: time without a step or a collective, before it is told who is "
        "waited for",
    )
    made.add_argument(
        "--strict",
        nargs="?",
        const="all",
        default="",
        metavar="WHAT",
        help="raise at the first breach: --strict or --strict=precision,loop",
    )
    made.add_argument(
        "--exit-code",
        choices=("script", "verdict"),
        default="verdict",
        help="script: always end with the script's own code",
    )
    made.add_argument(
        "--locked",
        nargs="?",
        const="reefwatch.lock",
        metavar="FILE",
        help="hold the environment against a lock (default: reefwatch.lock)",
    )
    made.add_argument("--no-scrub", action="store_true", help="keep user, host and secrets as read")
    made.add_argument("--no-live", action="store_true", help="no live line on a terminal")
    made.add_argument("--quiet", action="store_true", help="no end screen; the files are written")
    options.judging(made)
    options.files(made, "html", "json", "junit", "sarif")
    return made


def split(argv: list[str], made: argparse.ArgumentParser) -> tuple[list[str], list[str]]:
    """(our options, the program with its arguments).

    Done before argparse: it would look for our options among the script's arguments too.
    """
    takes = {
        name: action.nargs is None for action in made._actions for name in action.option_strings
    }
    here = 0
    while here < len(argv):
        word = argv[here]
        if word == "--":
            return argv[:here], argv[here + 1 :]
        if word == "-" or not word.startswith("-"):
            break
        if word.startswith("-m") and not word.startswith("--"):
            end = here + (2 if word == "-m" else 1)
            return argv[:end], argv[end:]
        if word == "--strict":
            argv = [*argv[:here], "--strict=all", *argv[here + 1 :]]
        if word == "--locked":  # its value is optional: only what is called a lock is one
            named = here + 1 < len(argv) and _is_lock(argv[here + 1])
            value = argv[here + 1] if named else "reefwatch.lock"
            argv = [*argv[:here], f"--locked={value}", *argv[here + 1 + named :]]
        here += 2 if takes.get(word) else 1
    return argv[:here], argv[here:]


def _is_lock(name: str) -> bool:
    """Whether a word is a lock and not the program: by its name, else by how the file begins."""
    if name.endswith(".lock"):
        return True
    try:
        with open(name, encoding="utf-8") as file:
            return file.read(200).startswith("# What computes here. `reefwatch lock")
    except (OSError, ValueError):
        return False


def main(argv: list[str]) -> int:
    """Run the verb; the exit code of the process."""
    from reefwatch import api
    from reefwatch.shell.live import Live

    made = parser()
    ours, program = split(argv, made)
    given = made.parse_args(options.split_negative(ours, ("--exam", "--budget")))
    if given.out is not None and not given.out.strip():
        raise UsageError("--out: give the name of a folder")
    options.targets(given, "html", "json", "junit", "sarif")
    if given.locked == "":
        raise UsageError("--locked: give the name of a lock")
    if given.module is None and not program:
        raise UsageError("nothing to run: give a script, or -m and a module")
    stderr = screen.STDERR.keep()
    live = Live(stderr) if not (given.quiet or given.no_live) else None

    def end_screen(report: Report) -> None:
        if live is not None:
            live.clear()
        if not given.quiet and stderr is not None:
            screen.flush_stdout()
            screen.STDERR.write(screen.text(report, stderr))

    def on_death(line: str) -> None:
        if live is not None:
            live.clear()
        screen.flush_stdout()
        say(line)

    return api.run(
        program if given.module is None else [given.module, *program],
        module=given.module is not None,
        claim=given.claim,
        exam=given.exam,
        budget=given.budget,
        strict=given.strict,
        hang=given.hang,
        out=given.out,
        scrub=not given.no_scrub,
        config=given.config,
        baseline=given.baseline,
        locked=given.locked,
        truth=given.truth,
        record=given.record,
        against=given.against,
        batch=given.batch,
        perturb=given.perturb,
        noise=given.noise,
        light=given.light,
        most=given.max_size,
        kernels=given.kernels,
        on_mismatch=given.on_mismatch,
        strict_casts=given.strict_casts,
        referee=given.referee,
        locate=given.locate,
        policy=options.policy(given),
        exports={
            kind: path
            for kind in ("html", "json", "junit", "sarif")
            if (path := getattr(given, kind)) is not None
        },
        say=say,
        end_screen=end_screen,
        on_status=live,
        on_death=None if given.quiet else on_death,
    )
