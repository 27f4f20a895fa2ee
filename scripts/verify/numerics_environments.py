"""A line of environments, some of which have a kernel made wrong: which one does bisect name?

All of them are this interpreter; what differs is a module that is loaded at its start and replaces
one kernel of the CPU by one whose result is spoiled.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

from numerics_jobs import each

ROOT = Path(__file__).resolve().parents[2]
LINE = (("one", None), ("two", None), ("three", "native_layer_norm"), ("four", "native_layer_norm"))
OPS = ("native_layer_norm", "addmm", "_log_softmax", "embedding_dense_backward", "gelu")
"""Ops that are spoiled, each in a line of its own."""


def script(folder: Path) -> Path:
    """The training whose reference is followed."""
    path = folder / "train.py"
    sys.path.insert(0, str(ROOT / "scripts" / "verify"))
    path.write_text(
        textwrap.dedent(
            f"""
            import sys
            sys.path.insert(0, {str(ROOT / "scripts" / "verify")!r})
            import torch
            from numerics_faults import Transformer

            torch.set_num_threads(1)
            torch.manual_seed(0)
            model = Transformer()
            optimizer = torch.optim.SGD(model.parameters(), 1e-2, momentum=0.9)
            for _ in range(4):
                loss = model(*model.batch())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """
        )
    )
    return path


def environment(folder: Path, name: str, op: str | None) -> Path:
    """A folder with `bin/python`, in which the kernel of `op` is 1 % off on one channel."""
    place = folder / f"env-{name}"
    (place / "bin").mkdir(parents=True)
    python = place / "bin" / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{place}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    spoil = f"""
        import torch

        op = getattr(torch.ops.aten, {op!r}).default
        kernel = torch.library.get_kernel(op, "CPU")
        library = torch.library.Library("aten", "IMPL")
        keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)

        def wrong(*args, **kwargs):
            out = kernel.call_boxed(keys, *args, **kwargs)
            one = out[0] if isinstance(out, (tuple, list)) else out
            one.select(-1, 1).mul_(1.01)
            return out

        library.impl({op!r}, wrong, "CPU")
    """
    (place / "sitecustomize.py").write_text(textwrap.dedent(spoil) if op else "")
    return place


def _environ() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}


def record(folder: Path, path: Path) -> None:
    command = [sys.executable, "-m", "reefwatch", "run", "--quiet", "--exit-code=script"]
    command += ["--out", str(folder / "run"), "--record", str(folder / "ref"), str(path)]
    subprocess.run(command, env=_environ(), check=True, capture_output=True)


def bisect(folder: Path, path: Path, envs: list[Path], *more: str) -> Any:
    names = ",".join(map(str, envs))
    command = [sys.executable, "-m", "reefwatch", "bisect", "--json", *more]
    command += ["--against", str(folder / "ref"), "--envs", names]
    command += ["--out", str(folder / "bisect"), str(path)]
    return subprocess.run(command, env=_environ(), capture_output=True, text=True, check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", nargs="+", default=list(OPS))
    given = parser.parse_args()
    ok = True
    print("| op made wrong | from | first named | op named | held where it is right |")
    print("| --- | --- | --- | --- | --- |")
    jobs = list(enumerate(given.ops))
    for words, right in each(_line, jobs):
        ok &= right
        print(words, flush=True)
    raise SystemExit(0 if ok else 1)


def _line(job: tuple[int, str]) -> tuple[str, bool]:
    """A row of the table, and whether all of it is as it should be."""
    number, op = job
    folder = Path(tempfile.mkdtemp())
    path = script(folder)
    record(folder, path)
    bad = number % 4
    line = [environment(folder, f"{n}", op if n >= bad else None) for n in range(4)]
    told = bisect(folder, path, line)
    if told.returncode not in (0, 3):
        raise RuntimeError(told.stderr)
    report = json.loads(told.stdout)
    first = str(report["facts"]["first"])
    places = [
        finding["place"].get("op", "")
        for outcome in report["outcomes"]
        for finding in outcome["findings"]
    ]
    named = any(op in place for place in places)
    healthy = bisect(folder, path, line[:bad]) if bad else None
    held = healthy is None or healthy.returncode == 0
    right = first.endswith(f"env-{bad}")
    words = f"| {op} | environment {bad} | {'yes' if right else first} "
    words += f"| {'yes' if named else 'no'} | {'yes' if held else 'no'} |"
    return words, right and named and held


if __name__ == "__main__":
    main()
