"""The process of one Triton version: `python -m reefwatch.experiments.kernels.child JOB`.

Runs the file under the virtual GPU and writes a JSON line for each launch and unit. The file's
own output goes to stderr: stdout belongs to the parent's report.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def main(argv: list[str]) -> int:
    """Run a job; 0 when the file was run, whatever became of it."""
    with open(argv[0], encoding="utf-8") as file:
        job = json.load(file)
    os.dup2(2, 1)
    rows = open(job["rows"], "a", encoding="utf-8", buffering=1)  # noqa: SIM115 (till the end)

    def tell(row: dict[str, Any]) -> None:
        rows.write(json.dumps(row, default=str) + "\n")

    try:
        work(job, tell)
    except ImportError as error:
        tell({"failed": f"{type(error).__name__}: {error}"})
    tell({"end": True})
    rows.close()
    return 0


def work(job: dict[str, Any], tell: Any) -> None:
    """Run the file of the job under the virtual GPU."""
    import torch
    import triton

    from reefwatch.experiments.kernels import driver, program
    from reefwatch.experiments.kernels.examiner import Examiner, Limits
    from reefwatch.experiments.kernels.pose import Pose
    from reefwatch.experiments.kernels.spool import Spool

    torch.set_num_threads(1)
    driver.unlinked()
    tell({"version": triton.__version__, "torch": torch.__version__})
    examiner = Examiner(
        torch,
        triton.__version__,
        job["targets"],
        lambda row: tell({"row": row}),
        Limits(**job.get("limits", {})),
        Spool(Path(job["spool"]), job["leads"]) if job.get("spool") else None,
        job.get("references"),
    )

    def begin(unit: str, names: dict[str, Any]) -> None:
        examiner.unit, examiner.names = unit, names

    with Pose(torch, job["targets"][0]), examiner.installed():
        for unit in program.run(Path(job["file"]), begin, torch):
            tell({"unit": unit})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
