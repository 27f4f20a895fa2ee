"""Workflow files for CI from templates: GitHub Actions and GitLab."""

from __future__ import annotations

import json
import shlex
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment

FILES = {
    "github": ".github/workflows/rocm.yml",
    "gitlab": ".gitlab-ci.yml",
    "known": ".reefwatch/known-failures.toml",
    "smoke": ".reefwatch/smoke.py",
}
"""Where each file goes in the repository."""
_TEMPLATES = {
    "github": "github.yml.j2",
    "gitlab": "gitlab.yml.j2",
    "known": "known-failures.toml.j2",
    "smoke": "smoke.py.j2",
}
IMAGE = "rocm/pytorch:latest"
CONTAINER = (
    "--device=/dev/kfd --device=/dev/dri --group-add video --group-add render --ipc=host "
    "--shm-size 16G --security-opt seccomp=unconfined"
)
_NEEDS = {
    "lightning": "lightning",
    "transformers": "transformers accelerate",
    "kernel-library": "triton",
    "generic": "",
}
"""What the smoke script and the suite import besides torch."""


def render(name: str, kind: str, gpu: str, target: str, tests: str) -> str:
    """One of FILES, for a project of that kind."""
    words = {
        "kind": kind,
        "image": IMAGE,
        "container": CONTAINER,
        "setup": _setup(kind),
        "without": without(kind, gpu, target, tests),
        "device_setup": _device_setup(kind),
        "device": _device(kind, tests),
    }
    made: str = _templates().get_template(_TEMPLATES[name]).render(words)
    return made.strip("\n") + "\n"


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("reefwatch.show", "templates/ci"),
        autoescape=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["t"] = json.dumps  # JSON is YAML, with everything quoted
    return made


def _step(name: str, run: str) -> dict[str, str]:
    return {"name": name, "run": run}


def _setup(kind: str) -> list[dict[str, str]]:
    cpu = "https://download.pytorch.org/whl/cpu"
    needs = f" {_NEEDS[kind]}" if _NEEDS[kind] else ""
    return [
        _step("Install torch for the CPU", f"python -m pip install torch --index-url {cpu}"),
        _step(
            "Install Reefwatch and what the tests need",
            f"python -m pip install reefwatch pytest{needs}",
        ),
    ]


def without(kind: str, gpu: str, target: str, tests: str) -> list[dict[str, str]]:
    """The steps of the job without a GPU, after the installation."""
    card, path = shlex.quote(gpu), shlex.quote(tests)
    steps = [
        _step("Do the installed packages fit together", "reefwatch doctor"),
        _step(
            "Is there a consistent set for the card",
            f"reefwatch plan --gpu {card} --os ubuntu-24.04 --python 3.12",
        ),
        _step(
            "Is the environment still the one that was frozen",
            "test ! -f reefwatch.lock || reefwatch lock --check reefwatch.lock",
        ),
        _step(
            "A few steps under watch",
            f"reefwatch run --claim bf16-mixed --out reefwatch-ci/smoke {FILES['smoke']}",
        ),
        _step(
            "The card's autocast policy, replayed",
            f"reefwatch precision --policy rocm --out reefwatch-ci/policy {FILES['smoke']}",
        ),
    ]
    if kind == "kernel-library":
        steps.append(
            _step(
                "Triton kernels on the virtual GPU",
                f"python -m pytest --reefwatch-target {target} {path} "
                "--junitxml reefwatch-ci/kernels.xml",
            )
        )
    else:
        steps.append(_step("The suite, each test under watch", _suite(path)))
    return steps


def _suite(path: str) -> str:
    return (
        f"reefwatch ci suite --tests {path} --known {FILES['known']} "
        "--json reefwatch-ci/suite.json --markdown reefwatch-ci/suite.md "
        "-- -q --junitxml reefwatch-ci/suite.xml"
    )


def _device_setup(kind: str) -> list[dict[str, str]]:
    needs = f" {_NEEDS[kind]}" if _NEEDS[kind] else ""
    return [
        _step(
            "Install beside the image's torch",
            f"python3 -m pip install reefwatch pytest{needs.replace(' triton', '')}",
        )
    ]


def _device(kind: str, tests: str) -> list[dict[str, str]]:
    path = shlex.quote(tests)
    only = "RUN_ONLY_CUDA_TESTS=1 " if kind == "lightning" else ""
    return [
        _step("Card, driver, wheels; smoke tests in child processes", "reefwatch doctor --deep"),
        _step("Drift from the lock", "test ! -f reefwatch.lock || reefwatch lock --check"),
        _step(
            "Every op against float64",
            f"reefwatch run --truth --claim bf16-mixed --out reefwatch-ci/truth {FILES['smoke']}",
        ),
        _step("The suite, each test under watch", only + _suite(path)),
    ]
