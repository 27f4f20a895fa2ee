"""References of runs: recorded, followed, and their noise measured."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reefwatch.api.settings import Settings
from reefwatch.core.errors import UsageError

RERUN = "rerun"
"""Name of the noise run that moves nothing: what it differs by is the machine's own."""


def options(settings: Settings, rank: int, world: int) -> dict[str, Any]:
    """What the instruments need. Raises UsageError and UnreadableRecord before the run begins."""
    from reefwatch.store import bundle

    if settings.batch is not None and (
        settings.against is None or settings.against.suffix != ".safetensors"
    ):
        raise UsageError("--batch goes with --against CHECKPOINT.safetensors")
    if settings.record is None and settings.against is None:
        return {}
    if settings.record is not None and settings.against is not None:
        raise UsageError("--record and --against: one of them")
    if settings.against is not None and world > 1:
        raise UsageError("--against follows one process: it would give every rank the same batch")
    from reefwatch.gather.numerics.reference import LADDER

    made: dict[str, Any] = {"ladder": LADDER}
    if settings.against is not None and settings.against.suffix == ".safetensors":
        made.update(reference=_small(settings), against=True)
    elif settings.against is not None:
        made["reference"] = bundle.Bundle(settings.against, settings.most or bundle.MOST_SIZE)
        made["against"] = True
    elif settings.record is not None and rank == 0:
        made["reference_writer"] = bundle.BundleWriter(settings.record, {})
        made.update(light=settings.light, noise=settings.noise)
        base = settings.record.with_name(settings.record.name.rpartition(".noise")[0] or "?")
        if settings.noise and (base / bundle.HEAD).is_file():
            made["reference"] = bundle.Bundle(base)
    return made


def _small(settings: Settings) -> Any:
    """A checkpoint with one batch as a reference. Raises UsageError, UnreadableRecord."""
    from reefwatch.gather.numerics.small import Small
    from reefwatch.store.bundle import MOST_SIZE, Tensors

    if settings.batch is None:
        raise UsageError("--against a checkpoint needs --batch FILE.safetensors")
    assert settings.against is not None
    most = settings.most or MOST_SIZE
    return Small(Tensors(settings.against, most), Tensors(settings.batch, most))


def measure_noise(
    settings: Settings,
    times: int,
    argv: Sequence[str],
    module: bool,
    say: Callable[[str], None],
) -> None:
    """Run the program again, once as it is and `times` moved by one ulp, and keep the noise."""
    from reefwatch.store.bundle import Bundle

    assert settings.record is not None
    found: dict[str, list[Bundle]] = {RERUN: [], "noise": []}
    folders = []
    for seed in range(times + 1):
        folder = settings.record.with_name(f"{settings.record.name}.noise{seed}")
        shutil.rmtree(folder, ignore_errors=True)
        folders.append(folder)
        say(f"the reference's noise: run {seed + 1} of {times + 1}")
        command = [sys.executable, "-m", "reefwatch", "run", "--quiet", "--no-live"]
        command += ["--record", str(folder), "--noise", str(seed), "--exit-code=script"]
        command += ["--out", str(folder) + ".run", *(["-m"] if module else []), *argv]
        told = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False
        )
        folders.append(Path(str(folder) + ".run"))
        if told.returncode:
            say(f"the reference's noise: run {seed + 1} ended with {told.returncode}")
            continue
        found["noise" if seed else RERUN].append(Bundle(folder))
    _keep(settings.record, found)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _keep(place: Path, found: Mapping[str, Sequence[Any]]) -> None:
    """Write the reference anew, each row with the largest distances of the noise runs."""
    from reefwatch.store.bundle import Bundle, BundleWriter

    base = Bundle(place)
    noises = {kind: [_sketches(one) for one in bundles] for kind, bundles in found.items()}
    curves = [one.head.get("losses", []) for one in found["noise"]]
    about = {k: v for k, v in base.head.items() if k not in ("reference", "rows", "files")}
    rows, tensors = list(base.rows()), [(name, base.tensor(name)) for name in base.names()]
    rows = [row if "given" in row else {**row, "noise": _noise(row, noises)} for row in rows]
    around = _around(rows)
    writer = BundleWriter(place, about)
    for row in rows:
        if row.get("noise", {}).get("noise"):
            row["noise"]["around"] = around[row["step"], row["phase"]]
        writer.row(row)
    for name, tensor in tensors:
        if tensor is not None:
            writer.tensor(name, *tensor)
    writer.about(noise=len(found["noise"]), rerun=bool(found[RERUN]))
    writer.about(band=_band(base.head.get("losses", []), curves))
    writer.close()


def _sketches(bundle: Any) -> dict[Any, Any]:
    from reefwatch.measure.matching import key

    return {key(row): row.get("sketch") for row in bundle.rows() if "given" not in row}


def _noise(row: Mapping[str, Any], noises: Mapping[str, Iterable[Any]]) -> dict[str, Any]:
    """By kind of noise run, the largest distances of this row; absent where it was not there."""
    from reefwatch.measure.matching import key
    from reefwatch.measure.sketches import distance, same_kind

    told: dict[str, Any] = {}
    for kind, runs in noises.items():
        for run in runs:
            other = run.get(key(row))
            if row["sketch"] is None or other is None or same_kind(row["sketch"], other):
                continue
            off = distance(row["sketch"], other)
            kept = told.setdefault(kind, {"value": 0.0, "norm": 0.0, "slice": 0.0})
            for part in kept:
                kept[part] = max(kept[part], off[part])
    return told


def _around(rows: Iterable[Mapping[str, Any]]) -> dict[Any, dict[str, float]]:
    """By step and phase, the root mean square of what a perturbation made of all its rows.

    A few runs say little of one norm: by luck it may be the same twice where all is in motion.
    """
    every: dict[Any, list[Mapping[str, float]]] = {}
    for row in rows:
        if row.get("noise", {}).get("noise"):
            every.setdefault((row["step"], row["phase"]), []).append(row["noise"]["noise"])
    return {
        key: {
            part: math.sqrt(sum(one[part] ** 2 for one in told) / len(told))
            for part in ("value", "norm", "slice")
        }
        for key, told in every.items()
    }


def _band(base: Sequence[float], curves: Sequence[Sequence[float]]) -> list[float]:
    """Half the width of the band that the perturbed curves make, by step; it never narrows."""
    widest, told = 0.0, []
    for step, loss in enumerate(base):
        others = [curve[step] for curve in curves if step < len(curve)]
        off = max((abs(other - loss) for other in others if math.isfinite(other)), default=0.0)
        widest = max(widest, off)
        told.append(widest)
    return told
