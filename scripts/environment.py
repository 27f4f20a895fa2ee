"""Make the virtual environment of the Makefile; run by the Python that the user chose.

When that Python already has a torch (a ROCm wheel, a container's, one in conda), the environment
sees that Python's packages, so that torch is used and never replaced.
"""

from __future__ import annotations

import importlib.util
import shutil
import site
import subprocess
import sys
import venv
from pathlib import Path

OUTER = "reefwatch_outer.pth"


def outer_folders() -> list[Path]:
    """The package folders of this Python when it has a torch, else none."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return []
    folders = [Path(spec.origin).parent.parent, *map(Path, site.getsitepackages())]
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]


def link(environment: Path, folders: list[Path]) -> None:
    """Let `environment` see `folders`, after its own packages.

    `--system-site-packages` would not do: made from a virtual environment (as containers have it)
    it shows the packages of that environment's base, where torch is not.
    """
    lines = [f"import site; site.addsitedir({str(folder)!r})\n" for folder in folders]
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    (environment / "lib" / version / "site-packages" / OUTER).write_text("".join(lines))


def main(folder: str) -> int:
    if sys.version_info < (3, 10):  # noqa: UP036 - whoever runs an older one should read why
        print(f"Python 3.10 or newer is needed, this is {sys.version.split()[0]}: make PYTHON=...")
        return 1
    environment = Path(folder)
    if (environment / "bin" / "python").exists():
        return 0
    found = outer_folders()
    print(f"making {folder} with Python {sys.version.split()[0]}", flush=True)
    if found:
        print(f"torch: the one in {found[0]} is used as it is", flush=True)
    try:
        venv.create(environment, with_pip=True, symlinks=True)
    except (ImportError, OSError, subprocess.CalledProcessError):
        shutil.rmtree(environment, ignore_errors=True)  # half an environment would pass for one
        print(f"{folder} could not be made; on Debian and Ubuntu: apt install python3-venv")
        return 1
    if found:
        link(environment, found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
