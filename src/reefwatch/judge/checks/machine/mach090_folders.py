"""MACH090: where MIOpen keeps what it finds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case

_NETWORK = ("nfs", "lustre", "gpfs", "beegfs", "cifs", "smb", "ceph", "glusterfs", "pvfs2", "9p")


def _case(**row: Any) -> Case:
    told = {"path": "/home/a/.cache/miopen", "disk": "ext4", "writable": True, "free": 10**11}
    return case(GPU, folders={"miopen cache": told | row})


@check(
    "MACH090",
    Severity.WARNING,
    when=(AMD,),
    needs=("machine.folders",),
    good=(_case(), _case(disk="tmpfs")),
    bad=(_case(writable=False), _case(disk="nfs4"), _case(free=10**7)),
)
def folders(case: Case) -> Iterator[Finding]:
    """MIOpen's database and cache lie in a writable folder, on a disk of this machine.

    Why: SQLite's locks do not work on NFS and Lustre: with many ranks MIOpen stops with "locking
    protocol" or "disk I/O error". In a folder that cannot be written every run searches again.
    Fix: `export MIOPEN_USER_DB_PATH=/tmp/miopen-$USER MIOPEN_CUSTOM_CACHE_DIR=/tmp/miopen-$USER`;
    on a shared disk also `MIOPEN_DEBUG_DISABLE_SQL_WAL=1`.
    Source: ROCm/MIOpen issue 2214.
    """
    rows: Mapping[str, Mapping[str, Any]] = case.value("machine.folders")
    variable = {"miopen database": "MIOPEN_USER_DB_PATH", "miopen cache": "MIOPEN_CUSTOM_CACHE_DIR"}
    for name, row in rows.items():
        disk, free = str(row.get("disk", "")), row.get("free")
        what = ""
        if row.get("writable") is False:
            what = "cannot be written"
        elif disk.startswith(_NETWORK):
            what = f"is on {disk}, a disk of the network"
        elif isinstance(free, int) and free < 1 << 28:
            what = f"has {free >> 20} MiB left"
        if what:
            path = str(row.get("path", ""))
            yield Finding(
                f"{name} {path[:160]} {what}",
                (Evidence(name, dict(row), source="statvfs, /proc/self/mounts"),),
                why="convolutions: errors with many ranks, or minutes of search on each run",
                fix=f"export {variable.get(name, 'MIOPEN_USER_DB_PATH')}=/tmp/miopen-$USER",
            )
