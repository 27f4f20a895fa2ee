"""What torch says of itself and of the device, without waking a device that the run left asleep."""

from __future__ import annotations

from typing import Any


def torch_facts(torch: Any, threads: bool) -> dict[str, Any]:
    """`env.torch`. Asking for the number of threads starts torch's thread pool: at the end only."""
    return {
        "version": str(torch.__version__),
        "hip": getattr(torch.version, "hip", None),
        "cuda": getattr(torch.version, "cuda", None),
        "threads": torch.get_num_threads() if threads else None,
    }


def device_facts(torch: Any) -> dict[str, Any]:
    """`env.device`. A GPU counts when the script has initialised it.

    Looking for one ourselves would (`cudaGetDeviceCount` forbids the use of CUDA after a fork).
    """
    if not torch.cuda.is_initialized():
        return {"kind": "cpu", "name": _processor(), "count": 1}
    kind = "amd" if getattr(torch.version, "hip", None) else "nvidia"
    name = torch.cuda.get_device_name(torch.cuda.current_device())
    return {"kind": kind, "name": name, "count": torch.cuda.device_count()}


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        return ""
    return ""
