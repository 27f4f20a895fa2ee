"""The bars of the planner: every card x torch from 2.4 on x index x system, and one plan applied.

Cards of one target get one plan, so targets stand for them; that each card of the table leads to
its target is counted apart. What a good plan is, is said in tests/plan/consistency.py, from the
tables and not from the solver.

    python scripts/verify/machine_plan.py [--no-apply]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from reefwatch.api import plan as api
from reefwatch.plan import cards, systems
from reefwatch.plan.sets import Conflict, Plan, Wishes
from reefwatch.plan.solver import solve
from reefwatch.show import plan as show
from tests.plan.consistency import GPUS, faults
from tests.plan.test_solver import ARCHS, BUILDS, TABLES, dockerfile

OSES = (*systems.KNOWN, "arch", "fedora-42")


def matrix() -> tuple[list[str], bool, dict[tuple[str, str], Plan]]:
    said: Counter[str] = Counter()
    wrong: list[str] = []
    plans: dict[tuple[str, str], Plan] = {}
    for number, arch in enumerate(ARCHS):
        print(f"{arch} ({number + 1} of {len(ARCHS)})", file=sys.stderr, flush=True)
        for build in BUILDS:
            for os in OSES:
                wish = Wishes(
                    gpu=arch, os=os, torch=build.torch, rocm=build.rocm, channel=build.channel
                )
                answer = solve(wish, TABLES)
                if isinstance(answer, Conflict):
                    said[f"conflict: {answer.name}"] += 1
                    if not answer.name or not answer.words or answer.nearest is None:
                        wrong.append(f"{wish}: a conflict without a name or neighbour")
                    continue
                said["plan" if not answer.weak else "plan with parts that are not sourced"] += 1
                wrong += [
                    f"{arch} {os} {build.torch}{build.tag}: {f}" for f in faults(answer, ("text",))
                ]
                plans.setdefault((arch, build.torch + build.tag + build.channel), answer)
    rows = [f"| {name} | {count} |" for name, count in sorted(said.items())]
    rows.append(f"| all | {said.total()} |")
    rows.append(f"| plans that contradict the tables | {len(wrong)} {wrong[:2] if wrong else ''} |")
    return rows, not wrong, plans


def known_cards() -> tuple[str, bool]:
    found = [cards.resolve(Wishes(gpu=row["name"]), GPUS) for row in GPUS["gpu"]]
    right = sum(
        isinstance(one, Wishes) and one.gfx == row["arch"]
        for one, row in zip(found, GPUS["gpu"], strict=True)
    )
    return f"{right} of {len(found)}", right == len(found)


def outputs(plans: dict[tuple[str, str], Plan]) -> tuple[list[str], bool]:
    """Each distinct plan in every format, through parsers that are not ours."""
    try:
        from dockerfile_parse import DockerfileParser
    except ImportError:
        DockerfileParser = None
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as made:
        script = Path(made) / "install.sh"
        for key, plan in plans.items():
            wrong += [f"{key}: {fault}" for fault in faults(plan)]
            script.write_text(show.render("shell", plan.plain()))
            done = subprocess.run(["bash", "-n", script], capture_output=True, text=True)
            wrong += [f"{key}: {done.stderr}"] if done.returncode or done.stderr else []
            text = show.render("dockerfile", plan.plain())
            if DockerfileParser is not None:
                parser = DockerfileParser(path=made)
                parser.content = text
                words = [row["instruction"] for row in parser.structure]
                steps = [word for word in words if word != "COMMENT"]
            else:
                steps = [word for word, _ in dockerfile(text)]
            if steps[:1] != ["FROM"] or set(steps) - {"FROM", "RUN", "ENV", "WORKDIR", "CMD"}:
                wrong.append(f"{key}: Dockerfile of {steps}")
    judge = "dockerfile-parse" if DockerfileParser is not None else "own (dockerfile-parse missing)"
    rows = [
        f"| distinct plans written in {len(show.FORMATS)} formats | {len(plans)} |",
        f"| parsers | packaging, tomllib, bash -n, {judge} |",
        f"| that do not parse or say something else | {len(wrong)} {wrong[:2] if wrong else ''} |",
    ]
    return rows, not wrong


def applied() -> tuple[str, bool]:
    """A CPU plan, installed from pip's own index; torch must be the planned build."""
    python = ".".join(map(str, sys.version_info[:2]))
    with tempfile.TemporaryDirectory() as made:
        found = api.plan(
            Wishes(
                "cpu",
                "cpu",
                python=python,
                torch="2.13.0",
                without=("torchvision",),
                libraries=("lightning",),
                source="pip",
            )
        )
        assert isinstance(found, Plan), found
        try:
            there = api.apply(found, Path(made) / "venv", lambda s: print(s, file=sys.stderr))
        except Exception as error:
            return f"{type(error).__name__}: {error}", False
        code = (
            "import torch, lightning; x = torch.ones(8); print(torch.__version__, (x @ x).item())"
        )
        ran = subprocess.run(
            [str(Path(made) / "venv/bin/python"), "-c", code], capture_output=True, text=True
        )
        told = ", ".join(f"{name} {version}" for name, version in there.items())
        return f"{told}; it prints {ran.stdout.strip()}", ran.stdout.split()[1:] == ["8.0"]


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-apply", action="store_true")
    given = parser.parse_args(argv)
    begun = time.monotonic()
    rows, consistent, plans = matrix()
    named, all_named = known_cards()
    written, parsed = outputs(plans)
    print("## Planner\n")
    print(f"{len(ARCHS)} targets x {len(BUILDS)} builds from torch 2.4 on x {len(OSES)} systems.\n")
    print("| what | count |\n| --- | --- |")
    print(f"| cards of the table that lead to their target by name | {named} |")
    print("\n".join([*rows, *written]), flush=True)
    installed = True
    if not given.no_apply:
        told, installed = applied()
        print(f"| `--apply` of a CPU plan | {told} |")
    print(f"\n{time.monotonic() - begun:.0f} s", file=sys.stderr)
    return 0 if consistent and all_named and parsed and installed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
