"""The workflow files: valid by their schemas, and the job without a GPU runs green here.

The two steps that install are left out: what they install is here. Needs check-jsonschema, PyYAML.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TEST = """
import torch
from torch import nn


def test_a_layer_learns():
    torch.manual_seed(0)
    layer = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    x, y = torch.randn(16, 4), torch.randint(2, (16,))
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(layer(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
"""
KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def double(x, out, n, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(out + at, 2 * tl.load(x + at, at < n), at < n)


def test_double():
    x = torch.randn(1000)
    out = torch.empty_like(x)
    double[(8,)](x, out, 1000, SIZE=128)
    assert torch.equal(out, 2 * x)
"""
NEEDS = {
    "generic": (),
    "lightning": ("lightning",),
    "transformers": ("transformers",),
    "kernel-library": ("triton",),
}


def steps(document: Any, host: str) -> list[str]:
    """The commands of the job without a GPU."""
    job = document["jobs"]["without-a-gpu"] if host == "github" else document["without-a-gpu"]
    if host == "gitlab":
        return [str(line) for line in job["script"]]
    return [str(step["run"]) for step in job["steps"] if "run" in step]


def one(kind: str, host: str, run: bool) -> tuple[list[str], bool]:
    """Rows of the table for one kind and host."""
    import yaml

    python = Path(sys.executable)
    environ = {
        **os.environ,
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
    }
    with tempfile.TemporaryDirectory() as folder:
        repo = Path(folder)
        (repo / "tests").mkdir()
        (repo / "tests" / "test_it.py").write_text(KERNEL if kind == "kernel-library" else TEST)
        made = [sys.executable, "-m", "reefwatch", "ci", "init", "--for", kind, "--host", host]
        subprocess.run(made, cwd=repo, env=environ, check=True, capture_output=True)
        file = repo / (".github/workflows/rocm.yml" if host == "github" else ".gitlab-ci.yml")
        schema = "vendor.github-workflows" if host == "github" else "vendor.gitlab-ci"
        checked = subprocess.run(
            [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(file)],
            capture_output=True,
            check=False,
        )
        valid = checked.returncode == 0
        rows = [f"| {kind} | {host} | schema `{schema}` | {'valid' if valid else 'NOT VALID'} | |"]
        good = valid
        for command in steps(yaml.safe_load(file.read_text()), host) if run else []:
            if "pip install" in command:
                continue
            begun = time.monotonic()
            told = subprocess.run(
                ["bash", "-ec", command],
                cwd=repo,
                env=environ,
                capture_output=True,
                text=True,
                check=False,
            )
            seconds = time.monotonic() - begun
            good &= told.returncode == 0
            said = "green" if told.returncode == 0 else f"exit {told.returncode}"
            rows.append(f"| {kind} | {host} | `{command}` | {said} | {seconds:.0f} s |")
            if told.returncode:
                print(told.stdout[-1500:], told.stderr[-1500:], file=sys.stderr)
        print(json.dumps({"kind": kind, "host": host, "good": good}), file=sys.stderr, flush=True)
    return rows, good


def main() -> int:
    rows, good = [], True
    for kind, needs in NEEDS.items():
        here = all(importlib.util.find_spec(name) for name in needs)
        for host in ("github", "gitlab"):
            told, fine = one(kind, host, here and host == "github")
            rows += told
            good &= fine
        if not here:
            rows.append(f"| {kind} | | not run: {', '.join(needs)} is not installed here | | |")
    print("## Workflow files, and their job without a GPU\n")
    print("| for | host | | | |\n| --- | --- | --- | --- | --- |")
    print("\n".join(rows) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
