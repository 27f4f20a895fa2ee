"""What each rank is: host, process, masks, card, versions."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping

from reefwatch.core.launch import Launch
from reefwatch.experiments.dist.steps import Bench, Row

MASKS = (
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
)
_TRANSPORT = ("NCCL_", "RCCL_", "GLOO_", "TORCH_NCCL_", "HSA_", "FI_", "UCX_")


def of_process(environ: Mapping[str, str], launch: Launch) -> Row:
    """What is known without torch."""
    return {
        "rank": launch.rank,
        "local_rank": launch.local_rank,
        "host": os.uname().nodename,
        "pid": os.getpid(),
        "masks": {name: environ[name] for name in MASKS if name in environ},
        "python": platform.python_version(),
        "transport": {
            name: value for name, value in sorted(environ.items()) if name.startswith(_TRANSPORT)
        },
    }


def of_rank(bench: Bench) -> Row:
    """What torch tells of this rank's card and of its own version."""
    torch = bench.torch
    row: Row = {
        "torch": torch.__version__,
        "backend": bench.backend,
        "library": "",
        "devices": torch.cuda.device_count() if bench.device != "cpu" else 0,
        "card": None,
    }
    if bench.device == "cpu":
        return row
    if bench.backend == "nccl":
        row["library"] = ".".join(map(str, torch.cuda.nccl.version()))
    about = torch.cuda.get_device_properties(bench.device)
    slot = [getattr(about, f"pci_{part}_id", -1) for part in ("domain", "bus", "device")]
    row["card"] = {
        "index": bench.device.index,
        "current": torch.cuda.current_device(),
        "name": about.name,
        "arch": getattr(about, "gcnArchName", "") or f"sm_{about.major}{about.minor}",
        "memory": about.total_memory,
        "units": about.multi_processor_count,
        "slot": "" if -1 in slot else "{:04x}:{:02x}:{:02x}".format(*slot),
        "uuid": str(getattr(about, "uuid", "")),
    }
    return row
