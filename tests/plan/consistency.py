"""What any plan must be, said without the solver: read from the tables and the plan alone."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

from reefwatch import data
from reefwatch.plan.sets import WEAK, Plan
from reefwatch.show import plan as show

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TORCH = data.table("compat/torch.toml")
GPUS = data.table("compat/gpus.toml")


def faults(plan: Plan, formats: tuple[str, ...] = show.FORMATS) -> Iterator[str]:
    """What is wrong with a plan for an AMD card; nothing for a good one."""
    yield from _tags(plan)
    yield from _set(plan)
    yield from _card(plan)
    yield from _admitted(plan, formats)
    if formats == show.FORMATS:
        yield from _outputs(plan)


def _tags(plan: Plan) -> Iterator[str]:
    own = [pin for pin in plan.pins if pin.own_index]
    tags = {pin.version.partition("+")[2] for pin in own}
    if len(tags) != 1 or not next(iter(tags)).startswith("rocm"):
        yield f"mixed tags: {tags}"
    if "download.pytorch.org" in plan.index and not plan.index.endswith("/" + next(iter(tags))):
        yield f"{tags} from {plan.index}"
    if any("+" in pin.version for pin in plan.pins if not pin.own_index):
        yield "a tag on a library"
    if {pin.name for pin in plan.pins} & {"triton", "pytorch-triton-rocm", "triton-rocm"}:
        yield "triton is asked for by number"


def _set(plan: Plan) -> Iterator[str]:
    have = {pin.name: pin.version.partition("+") for pin in plan.pins if pin.own_index}
    torch, _, tag = have["torch"]
    upstream = "download.pytorch.org" in plan.index
    for row in TORCH["torch"] if upstream else TORCH["amd_wheel"]:
        if upstream:
            fits = row["version"] == torch and tag in (
                *row["rocm_indexes"],
                *row.get("rocm_indexes_inferred", ()),
            )
        else:
            fits = (row["torch"], "rocm" + row["rocm"], row["index"]) == (torch, tag, plan.index)
        if fits:
            break
    else:
        yield f"no row of the tables has torch {torch} with {tag} from {plan.index}"
        return
    for name in ("torchvision", "torchaudio"):
        number = have.get(name, ("", "", ""))[0]
        if number != (row[name] if "unknown" not in row[name] else ""):
            yield f"{name} {number} beside torch {torch}, the row says {row[name]}"
    known = [text for text in row["python"] if re.fullmatch(r"3\.\d+", text)]
    known = known if len(known) > 1 else []  # one that was seen is no list
    if plan.wishes.python and known and plan.wishes.python not in known:
        yield f"Python {plan.wishes.python}, the row says {known}"
    package = "triton-rocm" if Version(torch) >= Version("2.10") else "pytorch-triton-rocm"
    if package not in plan.family:
        yield f"{package} is not among {plan.family}"


def _card(plan: Plan) -> Iterator[str]:
    (torch,) = [pin for pin in plan.pins if pin.name == "torch"]
    gfx, override = plan.wishes.gfx, plan.environment.get("HSA_OVERRIDE_GFX_VERSION")
    if "download.pytorch.org" not in plan.index:
        if torch.extras != (f"device-{gfx}",):
            yield f"{torch} carries no kernels for {gfx}"
        return
    number = torch.version.partition("+")[0]
    (row,) = [row for row in TORCH["torch"] if row["version"] == number]
    if gfx in row["gfx"]:
        if override:
            yield f"an override on {gfx}, which the wheel has kernels for"
        return
    if not override:
        yield f"no kernels for {gfx} and no override"
        return
    major, minor, step = map(int, override.split("."))
    target = f"gfx{major}{minor:x}{step:x}"
    if target not in row["gfx"] or target[:-1] != gfx[:-1]:
        yield f"an override of {gfx} to {target}"


def _admitted(plan: Plan, formats: tuple[str, ...]) -> Iterator[str]:
    """Weak rows are named in every format; doubtful sources are not called sourced."""
    weak = [row for row in plan.rows if row.confidence in WEAK]
    plain = plan.plain()
    for kind in formats:
        text = show.render(kind, plain)
        for row in weak:
            if row.what not in text or row.confidence not in text:
                yield f"{kind} is silent on {row.what} ({row.confidence})"
    torch = next(row for row in plan.rows if row.what == "torch")
    number, _, tag = torch.value.partition("+")
    for one in TORCH["torch"]:
        doubtful = (
            tag in one.get("rocm_indexes_inferred", ()) or f"{tag} from memory" in one["note"]
        )
        if one["version"] == number and doubtful and torch.confidence not in WEAK:
            yield f"torch {torch.value} is called {torch.confidence}"
    system = plan.row("system")
    if system and "does not list" in system.why and system.confidence not in WEAK:
        yield "an unlisted system is called sourced"


def _outputs(plan: Plan) -> Iterator[str]:
    plain = plan.plain()
    wanted = {(pin.name, pin.version, pin.extras) for pin in plan.pins}
    both = show.render("requirements", plain) + show.render("libraries", plain)
    told = set(requirements(both))
    # the lines that hold pip to the torch name it once more, without its extras
    if {(name, version) for name, version, _ in told} != {(n, v) for n, v, _ in wanted}:
        yield f"requirements say {told}"
    if not wanted <= told:
        yield f"requirements lack {wanted - told}"
    project = tomllib.loads(show.render("pyproject", plain))
    needs = {Requirement(text).name for text in project["project"]["dependencies"]}
    if needs != {pin.name for pin in plan.pins} | set(plan.family):
        yield f"pyproject needs {needs}"
    sources: dict[str, Any] = project["tool"]["uv"].get("sources", {})
    if plan.index and set(sources) != needs - {p.name for p in plan.pins if not p.own_index}:
        yield f"pyproject takes {set(sources)} from the index"
    for kind in show.FORMATS:
        if "--extra-index-url" in show.render(kind, plain):
            yield f"{kind} mixes indexes"


def requirements(text: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(name, version, extras) of a requirements file, by packaging's parser."""
    for line in text.splitlines():
        line = re.sub(r"(^|\s)#.*", "", line).strip()
        if line and not line.startswith("--"):
            made = Requirement(line)
            (pinned,) = made.specifier
            assert pinned.operator == "==", line
            yield made.name, pinned.version, tuple(sorted(made.extras))
