"""The virtual GPU in this process, between two moments: for a test runner."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from reefwatch.core.errors import UsageError
from reefwatch.core.record import Record
from reefwatch.experiments.kernels import driver, matrix, program
from reefwatch.experiments.kernels.examiner import Examiner, Limits, NotRun
from reefwatch.experiments.kernels.pose import Pose


class Bench:
    """Torch poses as a machine with the first target, launches are examined, until `close`."""

    def __init__(self, targets: Sequence[str], limits: Mapping[str, int]) -> None:
        self.targets, self.limits = tuple(targets), dict(limits)
        self.column = matrix.Column("")
        self._stack = ExitStack()
        self._examiner: Examiner | None = None

    def open(self) -> None:
        """Begin. Raises UsageError without torch or Triton."""
        os.environ.setdefault("TRITON_HIP_LLD_PATH", "/bin/true")
        os.environ.pop("TRITON_INTERPRET", None)
        try:
            import torch
            import triton
        except ImportError as error:
            raise UsageError(f"kernels need torch and triton: {error}") from None
        driver.unlinked()
        self.column.version = self.column.asked = triton.__version__
        self.column.torch = torch.__version__
        self._examiner = Examiner(
            torch, triton.__version__, self.targets, self.column.rows.append, Limits(**self.limits)
        )
        self._stack.enter_context(Pose(torch, self.targets[0]))
        self._stack.enter_context(self._examiner.installed())

    def begin(self, unit: str) -> None:
        """A test starts."""
        if self._examiner is not None:
            self._examiner.unit = unit

    def end(self, unit: str, error: BaseException | None, place: tuple[str, int]) -> None:
        """A test has ended."""
        told: dict[str, Any] = {"unit": unit, "ok": error is None, "error": "", "kind": ""}
        file = Path(place[0])
        told["asserts"] = file.suffix == ".py" and file.exists() and program.asserting(file)
        if error is not None:
            line = " ".join(str(error).split())[:300]
            told |= {
                "error": f"{type(error).__name__}: {line}",
                "kind": "NotRun" if isinstance(error, NotRun) else type(error).__name__,
                "file": place[0],
                "line": place[1],
            }
        self.column.units.append(told)

    def close(self) -> None:
        """Put everything back."""
        self._stack.close()


def record(targets: Sequence[str], columns: Sequence[matrix.Column], name: str) -> Record:
    """What the processes of a test run saw, as one record."""
    joined = matrix.Column("")
    for column in columns:
        joined.asked, joined.version = column.asked, column.version
        joined.rows += column.rows
        joined.units += column.units
    return matrix.joined(matrix.Job(Path(name), tuple(targets)), [joined])
