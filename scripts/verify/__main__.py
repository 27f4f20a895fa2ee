"""Run the bars of one contract and write docs/verified/<word>.md: `make verify-<word>`.

`scripts/verify/<word>.py` is a script that prints its tables in Markdown to stdout, its progress to
stderr, and ends with 0 when every bar was met. What is asked of it beyond the word is handed on;
then nothing is written, since the page tells of the whole bars only.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGES = HERE.parents[1] / "docs" / "verified"


def words(folder: Path = HERE) -> list[str]:
    """The contracts that have bars; `loop_models.py` is a part of `loop.py`."""
    stems = {file.stem for file in folder.glob("*.py")} - {"__main__"}
    return sorted(stem for stem in stems if stem.partition("_")[0] not in stems - {stem})


def about() -> str:
    """Versions and device, as they are here and now."""
    import torch

    device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "CPU"
    return (
        f"Reefwatch {metadata.version('reefwatch')}, torch {torch.__version__}, "
        f"Python {platform.python_version()}, {device}, {os.cpu_count()} cores"
    )


def page(word: str, tables: str, met: bool, where: str, seconds: float) -> str:
    """The page of one contract."""
    day = datetime.now(timezone.utc).date().isoformat()
    verdict = "All bars were met." if met else "NOT all bars were met."
    return (
        f"# What was verified: {word}\n\n"
        f"Written by `make verify-{word}`, never by hand.\n\n"
        f"{day}, {where}; {seconds:.0f} s. {verdict}\n\n{tables.strip()}\n"
    )


def main(argv: list[str], folder: Path = HERE, pages: Path = PAGES) -> int:
    if not argv or argv[0] not in words(folder):
        print(
            f"usage: python scripts/verify WORD; known: {', '.join(words(folder))}", file=sys.stderr
        )
        return 2
    word, *more = argv
    begun = time.monotonic()
    command = [sys.executable, str(folder / f"{word}.py"), *more]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    print(told.stdout, end="")
    if told.stdout.strip() and not more:
        pages.mkdir(parents=True, exist_ok=True)
        text = page(word, told.stdout, told.returncode == 0, about(), time.monotonic() - begun)
        (pages / f"{word}.md").write_text(text)
        print(f"written: {pages / f'{word}.md'}", file=sys.stderr)
    return told.returncode or (0 if told.stdout.strip() else 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
