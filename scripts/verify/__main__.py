"""Run the bars of one contract and write docs/verified/<word>.md: `make verify-<word>`.

`scripts/verify/<word>.py` has a function `bars()` that yields a Bar for each table.
The exit code is 1 when one was not met.
"""

from __future__ import annotations

import importlib
import os
import platform
import sys
import time
from datetime import date
from pathlib import Path

from bar import Bar

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs" / "verified"


def words() -> list[str]:
    """The contracts that have bars."""
    return sorted(file.stem for file in HERE.glob("*.py") if file.stem not in ("__main__", "bar"))


def about() -> str:
    """Versions and device, as they are here and now."""
    import torch

    import reefwatch

    device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "CPU"
    return (
        f"{date.today().isoformat()}: Reefwatch {reefwatch.__version__}, "
        f"torch {torch.__version__}, Python {platform.python_version()}, "
        f"{device}, {os.cpu_count()} cores."
    )


def page(word: str, bars: list[Bar], seconds: float) -> str:
    head = f"# What was verified: {word}\n\nWritten by `make verify-{word}`, never by hand.\n\n"
    return head + f"{about()} Took {seconds:.0f} s.\n\n" + "\n".join(b.markdown() for b in bars)


def main(argv: list[str]) -> int:
    if len(argv) != 1 or argv[0] not in words():
        print(f"usage: python scripts/verify WORD, one of: {', '.join(words())}", file=sys.stderr)
        return 2
    word = argv[0]
    begun = time.monotonic()
    done: list[Bar] = []
    for bar in importlib.import_module(word).bars():
        done.append(bar)
        print(f"{'met    ' if bar.met else 'NOT MET'}  {bar.title}", flush=True)
    DOCS.mkdir(parents=True, exist_ok=True)
    file = DOCS / f"{word}.md"
    file.write_text(page(word, done, time.monotonic() - begun))
    print(f"written: {file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file}")
    return 0 if done and all(bar.met for bar in done) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
