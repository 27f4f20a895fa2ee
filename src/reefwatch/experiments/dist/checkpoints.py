"""Does a checkpoint come back as it was: full, sharded, and at another world size?"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from reefwatch.experiments.dist import training
from reefwatch.experiments.dist.steps import Bench, Row, Step
from reefwatch.experiments.dist.wrapped import full


def steps(level: str, world: int) -> Iterator[Step]:
    """The cases of the phase `checkpoints`."""
    yield Step("checkpoints", "full and sharded", _both, {"form": "full and sharded"}, patience=2.0)
    if world > 1:
        name = f"saved by {world} ranks, loaded by {world - 1}"
        yield Step("checkpoints", name, _fewer, {"form": name}, patience=2.0)


def _trained(bench: Bench) -> tuple[Any, Any]:
    """A sharded model and its optimizer after an update: its state then has moments."""
    module = training.sharded(bench, training.Net(device=bench.device))
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
    mine = slice(bench.rank * 4, bench.rank * 4 + 4)
    tokens, labels = training.batch(0, 4 * bench.world, bench.device)
    torch.nn.functional.cross_entropy(module(tokens[mine]), labels[mine]).backward()
    optimizer.step()
    return module, optimizer


def _fresh(bench: Bench, mesh: Any = None) -> tuple[Any, Any]:
    module = training.sharded(bench, training.Net(device=bench.device), mesh=mesh)
    with torch.no_grad():
        for p in module.parameters():
            p.zero_()
    return module, torch.optim.AdamW(module.parameters(), lr=1e-2)


def _folder(bench: Bench, name: str) -> Path:
    """One folder for all ranks. Raises NotImplementedError without a common disk."""
    mine = tempfile.mkdtemp(prefix="reefwatch-checkpoint-") if bench.rank == 0 else ""
    folder = Path(bench.tell_all(f"folder/{name}", mine)[0])
    seen = bench.tell_all(f"seen/{name}", "1" if folder.is_dir() else "")
    if not all(seen):
        shutil.rmtree(mine, ignore_errors=True) if mine else None
        raise NotImplementedError("the ranks have no common disk for a checkpoint")
    return folder


def _both(bench: Bench) -> Row:
    import torch.distributed.checkpoint as saved
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions,
        get_model_state_dict,
        get_state_dict,
        set_state_dict,
    )

    module, optimizer = _trained(bench)
    whole = {k: full(v).detach().cpu() for k, v in module.state_dict().items()}
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    told = get_model_state_dict(module, options=options)
    bad = [k for k, v in told.items() if not torch.equal(v, whole[k])]
    if bench.rank == 0 and set(told) != set(whole):
        bad.append(f"names: {sorted(set(told) ^ set(whole))}")
    if bad:
        return _lost("the full state dict", bad)
    folder = _folder(bench, "both")
    try:
        model_state, optimizer_state = get_state_dict(module, optimizer)
        saved.save({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=folder)
        again, its = _fresh(bench)
        model_state, optimizer_state = get_state_dict(again, its)
        state = {"model": model_state, "optimizer": optimizer_state}
        saved.load(state, checkpoint_id=folder)
        set_state_dict(
            again, its, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
        )
        bench.tell_all("loaded/both", "1")
    finally:
        if bench.rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
    bad = [k for k, v in again.state_dict().items() if not torch.equal(full(v).cpu(), whole[k])]
    bad += _moments(module, optimizer, again, its)
    return _lost("the sharded checkpoint", bad) if bad else {"state": "right", "rule": "same bits"}


def _moments(module: Any, optimizer: Any, again: Any, its: Any) -> list[str]:
    """Names of moments of the optimizer that did not come back."""
    bad = []
    for (name, one), other in zip(module.named_parameters(), again.parameters(), strict=True):
        for key, value in optimizer.state[one].items():
            back = its.state.get(other, {}).get(key)
            if back is None or not torch.equal(
                full(torch.as_tensor(back)).cpu(), full(torch.as_tensor(value)).cpu()
            ):
                bad.append(f"{key} of {name}")
    return bad


def _lost(what: str, names: list[str]) -> Row:
    some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return {
        "state": "wrong",
        "detail": f"{what} differs in {some}",
        "why": f"{what} differs in {names[0]}",
    }


def _fewer(bench: Bench) -> Row:
    """Saved by all, loaded by all but the last."""
    import torch.distributed.checkpoint as saved
    from torch.distributed.checkpoint.state_dict import get_model_state_dict
    from torch.distributed.device_mesh import DeviceMesh

    module, _ = _trained(bench)
    whole = {k: full(v).detach().cpu() for k, v in module.state_dict().items()}
    folder = _folder(bench, "fewer")
    some = list(range(bench.world - 1))
    group = dist.new_group(some)
    bad: list[str] = []
    try:
        saved.save({"model": get_model_state_dict(module)}, checkpoint_id=folder)
        if bench.rank in some:
            kind = "cpu" if bench.device == "cpu" else "cuda"
            mesh = DeviceMesh.from_group(group, kind, mesh_dim_names=("shard",))
            again, _ = _fresh(bench, mesh)
            state = {"model": get_model_state_dict(again)}
            saved.load(state, checkpoint_id=folder, process_group=group)
            again.load_state_dict(state["model"])
            bad = [
                k for k, v in again.state_dict().items() if not torch.equal(full(v).cpu(), whole[k])
            ]
        bench.tell_all("loaded/fewer", "1")
    finally:
        if bench.rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
    return _lost("the checkpoint", bad) if bad else {"state": "right", "rule": "same bits"}
