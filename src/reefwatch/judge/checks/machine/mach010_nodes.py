"""MACH010: the device nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reefwatch.core.check import check
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Finding, Severity
from reefwatch.core.record import Case
from reefwatch.judge.machine_words import AMD, GPU, case, known, shown

_KFD, _RENDER = "/dev/kfd", "/dev/dri/renderD128"
_OK = {"open": "ok", "gid": 109, "mode": "0660"}
_PERSON = {"root": False, "groups": [1000]}
_DRIVER = ("EPERM", "ENOMEM", "ENODEV", "ENXIO", "EIO", "EBUSY")
_RUN = "--device /dev/kfd --device /dev/dri --group-add video --group-add render"


def _set(container: str = "", **nodes: Any) -> Case:
    named = {"kfd": _KFD, "render": _RENDER}
    found = {named[name]: value for name, value in nodes.items()}
    return case(GPU, nodes=found, person=_PERSON, container=container, wsl=False)


@check(
    "MACH010",
    Severity.ERROR,
    when=(AMD,),
    needs=("machine.nodes", "machine.person", "machine.container"),
    good=(_set(kfd=_OK, render=_OK), _set("docker", kfd=_OK, render=_OK)),
    bad=(
        _set(kfd={"open": "EACCES", "gid": 109, "mode": "0660"}, render=_OK),
        _set(kfd={"open": "ENOENT"}, render=_OK),
        _set("docker", kfd={"open": "ENOENT"}),
        _set(kfd=_OK, render={"open": "EACCES", "gid": 44, "mode": "0660"}),
        _set(kfd=_OK),
        _set(kfd={"open": "EACCES", "gid": 0, "mode": "0600"}, render=_OK),
        case(
            GPU | {"render_minor": 129},
            nodes={_KFD: _OK, _RENDER: _OK},
            person=_PERSON,
            container="docker",
        ),
        _set(kfd={"open": "ENOMEM"}, render=_OK),
        case(
            GPU,
            nodes={_KFD: _OK | {"device": "10:1"}, _RENDER: _OK},
            person=_PERSON,
            container="docker",
            kfd_dev="235:0",
        ),
    ),
)
def nodes(case: Case) -> Iterator[Finding]:
    """The device nodes that ROCm opens are there, and open for this user.

    Opened for reading and writing, which is the only proof: access lists, namespaces and udev
    rules can grant or deny what groups and modes suggest.

    Why: without /dev/kfd and a render node no program of this user computes on the GPU: torch says
    "no HIP GPUs are available", also where rocm-smi still lists the card.
    Fix: `sudo usermod -aG "$(stat -c %G /dev/kfd)" $USER`, then log in again; for a container
    `--device /dev/kfd --device /dev/dri` and `--group-add` with the number of the node's group.
    Source: ROCm/ROCm-docker issue 116; ROCm/amdsmi issues 125 and 184; ROCm install guide.
    """
    found: Mapping[str, Mapping[str, Any]] = case.value("machine.nodes")
    inside = case.value("machine.container")
    rows = {path: row for path, row in found.items() if path != _KFD}
    number, wanted = found.get(_KFD, {}).get("device"), case.known("machine.kfd_dev")
    if number and wanted and number != wanted:
        yield Finding(
            f"{_KFD} is device {number}, and KFD is {wanted}: it is another file of that name",
            (Evidence(_KFD, number, source="stat(2), /sys/class/kfd/kfd/dev"),),
            why="every use: what is opened is not the driver",
            fix=f"sudo rm {_KFD}; sudo mknod {_KFD} c {wanted.replace(':', ' ')}; in a container "
            f"start it with {_RUN}",
        )
    yield from _one(_KFD, found.get(_KFD, {"open": "ENOENT"}), inside, case)
    if not rows:
        yield from _one("/dev/dri/renderD*", {"open": "ENOENT"}, inside, case)
    for path, row in rows.items():
        yield from _one(path, row, inside, case)
    for gpu in shown(case) if rows else ():
        path = f"/dev/dri/renderD{known(gpu.get('render_minor'))}"
        if known(gpu.get("render_minor")) and gpu["node"] is not None and path not in rows:
            yield from _one(path, {"open": "ENOENT"}, inside, case)


def _group_may(mode: str) -> bool:
    """Whether the mode, `0660`, lets the group read and write; true when it is not known."""
    try:
        return int(mode, 8) & 0o060 == 0o060
    except ValueError:
        return True


def _one(path: str, row: Mapping[str, Any], inside: str, case: Case) -> Iterator[Finding]:
    state = str(row.get("open", ""))
    if state == "ok":
        return
    evidence = (Evidence(path, dict(row), source="open(2) for reading and writing"),)
    gid = row.get("gid")
    if state == "ENOENT":
        fix = f"start the container with {_RUN}" if inside else "sudo modprobe amdgpu"
        what = f"{path} is not there" + (f" in this {inside} container" if inside else "")
        if case.known("machine.wsl"):
            fix = "under WSL2 use AMD's WSL build of ROCm, which goes through /dev/dxg"
    elif state in _DRIVER:
        what = f"{path} does not open ({state}): the driver refuses"
        fix = "sudo dmesg | grep -i -E 'amdgpu|kfd', then restart or reload the driver"
    else:
        what = f"{path} may not be opened by this user ({state}, mode {row.get('mode', '?')})"
        member = gid in case.value("machine.person")["groups"]
        fix = f'sudo usermod -aG "$(stat -c %G {path})" $USER, then log in again'
        if not _group_may(str(row.get("mode", ""))):
            rule = f'KERNEL=="{path.rpartition("/")[2]}", MODE="0660", GROUP="render"'
            fix = f"echo '{rule}' | sudo tee /etc/udev/rules.d/70-amdgpu.rules; restart"
        elif inside:
            fix = f"start the container with --group-add {gid}"
        elif member:
            fix = f"the group {gid} is yours already: look at getfacl {path}"
    yield Finding(
        what,
        evidence,
        claimed="readable and writable for this user",
        why="every use: no program of this user can compute on the GPU",
        fix=fix,
    )
