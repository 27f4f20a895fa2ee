"""Run labelled ops on a GPU and write down which kernels ran: names with true labels.

    PYTHONPATH=src python scripts/capture_kernel_names.py OUT [--only WORD]

Needs torch with a GPU and this repository, nothing else. OUT gets `names.tsv` (a row for each
kernel of each case: what was run, in which dtype, how fast, and what the shipped rules say of the
name), `traces/*.json.gz` (small profiler traces of whole steps) and `summary.json`. The dtype of a
case is known by construction: its operands are made in it. Whether matrix units ran is known where
the rate is above what the vector units can do, and where the op is no product.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import kernel_cases_more
import torch
from kernel_cases import Case, cases, steps, tf32

COLUMNS = (
    *("case", "kind", "dtype", "kernel", "calls", "microseconds", "share", "tflops"),
    *("library", "compute_dtype", "accumulate_dtype", "matrix_core", "naive", "role"),
)


def kernels(trace: Path) -> dict[str, list[float]]:
    """Durations (microseconds) of each kernel, copy and fill of a trace."""
    with (gzip.open if trace.suffix == ".gz" else open)(trace, "rt") as file:
        events = json.load(file)["traceEvents"]
    found: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            found[event["name"]].append(float(event.get("dur", 0)))
    return found


def measure(case: Case, scratch: Path) -> list[dict[str, Any]]:
    """The kernels of five calls of one case."""
    from torch.profiler import ProfilerActivity, profile

    with tf32(case.dtype == "tf32"):
        for _ in range(3):
            case.run()
        torch.cuda.synchronize()
        with profile(
            activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True
        ) as profiler:
            for _ in range(5):
                case.run()
            torch.cuda.synchronize()
    profiler.export_chrome_trace(str(scratch))
    found = kernels(scratch)
    total = sum(map(sum, found.values())) or 1.0
    return [
        {
            "case": case.name,
            "kind": case.kind,
            "dtype": case.dtype,
            "kernel": name,
            "calls": len(times),
            "microseconds": round(sum(times) / len(times), 2),
            "share": round(sum(times) / total, 4),
            "tflops": round(case.flops * 5 / total / 1e6, 1) if case.flops else "",
        }
        for name, times in sorted(found.items(), key=lambda pair: -sum(pair[1]))
    ]


def classifier() -> Callable[[str], dict[str, str]]:
    """The shipped rules; empty answers where they cannot be read (Python 3.10 without tomli)."""
    try:
        from dataclasses import asdict

        from reefwatch.data import kernels as shipped

        shipped.families()
        return lambda name: asdict(shipped.classify(name))
    except ImportError as error:
        print(f"names only, without the answers of the rules: {error}", file=sys.stderr)
        return lambda name: {}


def write_traces(folder: Path) -> None:
    from torch.profiler import ProfilerActivity, profile

    folder.mkdir(parents=True, exist_ok=True)
    for name in ("clean", "island", "mixed", "math", "fp32", "tf32"):
        try:
            with tf32(name == "tf32"):
                step = steps(name)
                for _ in range(3):
                    step()
                torch.cuda.synchronize()
                with profile(
                    activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
                    record_shapes=True,
                    with_stack=True,
                    with_modules=True,
                ) as profiler:
                    for _ in range(2):
                        step()
                        profiler.step()
                    torch.cuda.synchronize()
            profiler.export_chrome_trace(str(folder / f"{name}.json.gz"))
        except Exception:
            traceback.print_exc()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--only", default="", help="only groups of cases with this word in their name"
    )
    parser.add_argument(
        "--seconds", type=float, default=480, help="stop beginning new groups after this long"
    )
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    begun, failed, groups = time.monotonic(), [], 0
    classify = classifier()
    torch.manual_seed(0)
    if not given.only:
        write_traces(given.out / "traces")
    with (given.out / "names.tsv").open("w") as file:
        file.write("\t".join(COLUMNS) + "\n")
        for group, found in chain(cases(given.only), kernel_cases_more.cases()):
            if given.only not in group or time.monotonic() - begun > given.seconds:
                continue
            groups += 1
            print(f"{time.monotonic() - begun:6.0f} s  {group}", file=sys.stderr, flush=True)
            while True:
                case = None
                try:
                    case = next(found, None)
                    if case is None:
                        break
                    for row in measure(case, given.out / "scratch.json"):
                        row |= {k: v for k, v in classify(row["kernel"]).items() if k != "name"}
                        file.write(
                            "\t".join(str(row.get(key, "")).replace("\t", " ") for key in COLUMNS)
                            + "\n"
                        )
                    file.flush()
                except Exception as error:
                    where = f"{group}: {case.name if case else 'its making'}"
                    failed.append(f"{where}: {type(error).__name__}: {str(error)[:200]}")
                    if case is None:
                        break
    (given.out / "scratch.json").unlink(missing_ok=True)
    about = {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(0),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
    }
    about |= {"groups": groups, "seconds": round(time.monotonic() - begun), "failed": failed}
    (given.out / "summary.json").write_text(json.dumps(about, indent=1))
    print(json.dumps(about, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
