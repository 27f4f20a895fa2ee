"""torch.compile survives: compiled code runs during and after examined steps, the same bits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("compiled.py")


def ran(backend, where, watched):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), backend, where, str(int(watched))],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith('{"unseen"')]
    return json.loads(done.stdout), json.loads(said[0]) if said else None


# each run is a fresh process, so each real backend is paired with what is hardest for it
@pytest.mark.parametrize(
    ("backend", "where"),
    [
        ("counting", "outside"),
        ("counting", "inside"),
        ("counting", "break"),
        ("aot_eager", "break"),
        ("inductor", "outside"),
        ("inductor", "inside"),
    ],
)
def test_compiled_code_stays_compiled_and_gives_the_same(backend, where):
    plain, _ = ran(backend, where, False)
    watched, told = ran(backend, where, True)
    assert watched == plain
    if backend == "counting":  # in each step, examined or not
        assert watched["runs"] == [2 if where == "break" else 1] * 6
    graphs = 2 if where == "break" else 1
    assert told["failed"] == []
    assert told["unseen"] == [f"inside {graphs} compiled graphs"]
    generated = ("<eval_with_key>", "torchinductor")
    assert not [f for f in told["files"] if any(word in f for word in generated)]
