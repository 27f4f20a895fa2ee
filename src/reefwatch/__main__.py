"""`python -m reefwatch`, the same as the command `reefwatch`."""

from __future__ import annotations

import sys

from reefwatch.shell.cli import main

if __name__ == "__main__":
    sys.exit(main())
