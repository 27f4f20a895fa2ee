"""`reefwatch explain [CODE]`"""

from __future__ import annotations

import argparse


def parser() -> argparse.ArgumentParser:
    """The options of `explain`."""
    made = argparse.ArgumentParser(
        "reefwatch explain",
        description="What a check looks at, why, and how to fix it; without a code, all checks.",
    )
    made.add_argument("code", nargs="?", metavar="CODE", help="such as PREC001")
    return made


def main(argv: list[str]) -> int:
    """Run the verb; the exit code of the process."""
    from reefwatch import api

    print(api.explain(parser().parse_args(argv).code))
    return 0
