"""MACH022: firmware of which a defect is known."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case, devices, known, of_row, title

_ROW = {
    "gfx": ["gfx1151"], "file": "mes", "version": 131, "what": "hangs", "grade": "measured",
    "fix": "roll linux-firmware back", "source": "ROCm issue 5724",
}  # fmt: skip


def _doubt(case: Case) -> str:
    """A card of which a bad firmware is known, and whose own is not."""
    for gpu in devices(case):
        for row in case.value("machine.bad_firmware"):
            if known(gpu["gfx"]) in row["gfx"] and row["file"] not in gpu.get("firmware", {}):
                return f"the {row['file']} firmware of {title(gpu)} is not told (an older kernel)"
    return ""


@check(
    "MACH022",
    Severity.ERROR,
    when=(AMD,),
    needs=("machine.gpus", "machine.bad_firmware"),
    good=(
        case(GPU | {"firmware": {"mes": 131}}, bad_firmware=[_ROW]),
        case(GPU | {"gfx": "gfx1151", "firmware": {"mes": 128}}, bad_firmware=[_ROW]),
    ),
    bad=(case(GPU | {"gfx": "gfx1151", "firmware": {"mes": 131}}, bad_firmware=[_ROW]),),
    doubt=_doubt,
)
def firmware(case: Case) -> Iterator[Finding]:
    """No card runs firmware of which a defect is known.

    The version is in the card's fw_version folder; where there is none, nothing is said.

    Why: the scheduler firmware (MES) of one release of linux-firmware hung the GPU, or faulted in
    programs that were right.
    Fix: another linux-firmware; where `dpkg -S` names amdgpu-dkms-firmware for the file, purge that
    package; then `sudo update-initramfs -u` and restart.
    Source: ROCm issue 5724.
    """
    for gpu in devices(case):
        for row in case.value("machine.bad_firmware"):
            have = gpu.get("firmware", {}).get(row["file"])
            if known(gpu["gfx"]) in row["gfx"] and have and have & 0xFFF == row["version"]:
                yield Finding(
                    f"{title(gpu)} runs {row['file']} firmware 0x{have & 0xFFF:x}: {row['what']}",
                    (of_row(f"{row['file']} firmware", have, row),),
                    why="training and long inference: the GPU hangs or faults",
                    fix=row["fix"],
                )
