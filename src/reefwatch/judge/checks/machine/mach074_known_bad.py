"""MACH074: combinations of which a defect is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Grade
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case, of_row

_ROW = {
    "title": "gfx1100 NaN in fine-tuning", "kind": "correctness", "detail": "diverges on a card",
    "advice": "compare a short run with the processor's", "source": "ROCm issue 4391",
    "gfx": ["gfx1100"], "release": "6.3.2", "wsl": False, "grade": "measured", "unsure": False,
}  # fmt: skip


def _case(*rows: Any) -> Case:
    return case(GPU, torch_rocm=True, known_bad=list(rows), wsl=False)


@check(
    "MACH074",
    Severity.WARNING,
    when=(AMD, "machine.torch_rocm"),
    needs=("machine.known_bad",),
    good=(_case(), _case(_ROW | {"wsl": True})),
    bad=(_case(_ROW), _case(_ROW | {"kind": "performance", "grade": "measured"})),
)
def known_bad(case: Case) -> Iterator[Finding]:
    """No defect is known of this card with this ROCm and torch.

    A row whose cause is open, or whose release is not certain, is a note.

    Why: these were reported by others with the same combination: wrong numbers, resets, or a
    fraction of the speed.
    Fix: what the row advises, in most cases another release.
    Source: the table of regressions (rocm.toml), which names an issue or a release note for each.
    """
    for row in case.value("machine.known_bad"):
        if row["wsl"] and not case.known("machine.wsl", False):
            continue
        evidence = of_row(row["title"], row["release"], row)
        if row["unsure"] and evidence.grade is Grade.MEASURED:
            evidence = replace(evidence, grade=Grade.PREDICTED)
        yield Finding(
            f"{row['title']} (ROCm {row['release']}): {row['detail'][:200]}",
            (evidence,),
            why=f"reported as {row['kind']}",
            fix=row["advice"],
        )
