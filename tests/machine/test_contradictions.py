"""Sources that contradict each other, or make no sense, prove nothing; odd spelling is no fault."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from reefwatch.api import machine
from reefwatch.core.errors import UnreadableRecord, UsageError
from reefwatch.core.finding import Outcome, Severity, Verdict
from tests.machine import machines
from tests.machine.machines import NODES, SITE, desktop

DEVICE = "sys__class__drm__card0__device__"


def look(tmp_path: Path, files: dict[str, str]) -> dict[str, Outcome]:
    report = machine.doctor(root=machines.write(tmp_path / "m", files))
    assert not [o for o in report.outcomes if o.verdict is Verdict.ERRORED]
    return {o.code: o for o in report.outcomes}


def gpu(tmp_path: Path, files: dict[str, str]) -> dict[str, Any]:
    report = machine.doctor(root=machines.write(tmp_path / "m", files))
    (one,) = report.records[0].facts["machine.gpus"].value
    return one


SPELT = {
    "line ends of Windows": lambda text: text.replace("\n", "\r\n"),
    "blanks at line ends": lambda text: text.replace("\n", " \t\n"),
    "blank lines": lambda text: "\n" + text,
    "no last line end": lambda text: text.rstrip("\n"),
}


@pytest.mark.parametrize("how", sorted(SPELT))
def test_spelling_makes_no_difference(tmp_path, how):
    """A tree that came through another system, or an editor."""
    files = desktop()
    odd = {
        k: SPELT[how](v) if k.startswith(("sys", "proc", "etc")) else v for k, v in files.items()
    }
    first, second = look(tmp_path / "a", files), look(tmp_path / "b", odd)
    assert {c: o.verdict for c, o in first.items()} == {c: o.verdict for c, o in second.items()}
    assert max(o.severity for o in second.values()) is Severity.NOTE


def test_a_card_that_kfd_and_drm_call_differently_has_no_name(tmp_path):
    uevent = "DRIVER=amdgpu\nPCI_ID=1002:73BF\nPCI_SLOT_NAME=0000:03:00.0\n"
    one = gpu(tmp_path, desktop(**{DEVICE + "uevent": uevent}))
    assert "744c" in one["device"]["unknown"] and "73bf" in one["device"]["unknown"]
    assert one["name"] == one["device"]
    assert one["gfx"] == "gfx1100"


def test_more_memory_in_use_than_there_is_is_not_believed(tmp_path):
    said = look(tmp_path, desktop(**{DEVICE + "mem_info_vram_used": "99999999999999\n"}))
    assert said["MACH091"].verdict is Verdict.UNPROVEN


ENVIRON = ("MACH001", "MACH002", "MACH004", "MACH005", "MACH006", "MACH007", "MACH008")


@pytest.mark.parametrize("text", ["[]", "{", "null", '"x"', '{"HSA_OVERRIDE_GFX_VERSION": 11}', ""])
def test_damaged_variables_are_not_known(tmp_path, text):
    said = look(tmp_path, desktop(**{"environ.json": text}))
    assert {said[code].verdict for code in ENVIRON} == {Verdict.UNPROVEN}


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"proc/sys/kernel/osrelease": "linux-zen\n"}, "MACH023"),
        ({"proc/cpuinfo": "processor\t: 0\nFeatures\t: fp asimd\n"}, "MACH054"),
        ({"proc/cpuinfo": "processor\t: 0\n"}, "MACH054"),
        ({"process.json": json.dumps(machines.process(libc=""))}, "MACH055"),
        ({"opt/rocm/lib/libamdhip64.so.7": ""}, "MACH061"),
        ({"opt/rocm/lib/libamdhip64.so.7": "", "opt/rocm/.info/version": "oops\n"}, "MACH061"),
    ],
)
def test_a_value_of_another_form_proves_nothing(tmp_path, files, code):
    said = look(tmp_path, desktop(**files))
    assert said[code].verdict is Verdict.UNPROVEN and said[code].reason
    assert max(o.severity for o in said.values()) is Severity.NOTE


def test_one_system_rocm_that_fits_is_enough(tmp_path):
    files = desktop(**{
        "opt/rocm-7.2.0/.info/version": "7.2.0-43\n", "opt/rocm/lib/libamdhip64.so.7": ""
    })  # fmt: skip
    assert look(tmp_path, files)["MACH061"].verdict is Verdict.HELD


def test_the_kernels_own_driver_is_of_no_release(tmp_path):
    report = machine.doctor(root=machines.write(tmp_path / "m", desktop()))
    assert "MACH025" not in {o.code for o in report.outcomes}
    assert "kernel's own" in report.unclaimed["MACH025"]


def test_a_capture_of_a_newer_version_is_refused(tmp_path):
    files = desktop(**{"capture.json": json.dumps({"schema": 2, "unreadable": {}})})
    with pytest.raises(UnreadableRecord, match="newer version"):
        look(tmp_path, files)


def test_a_pipe_is_no_machine(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for given in ({"root": tmp_path / "pipe"}, {"root": "/dev/zero"}, {"data": tmp_path / "pipe"}):
        with pytest.raises(UsageError, match="neither a folder nor a file"):
            machine.doctor(**given)


def test_a_package_that_is_there_twice_is_told_and_the_imported_one_counts(tmp_path):
    version = "__version__ = '2.13.0+rocm7.2'\nhip: Optional[str] = '7.2.5'\ncuda = None\n"
    files = desktop(**{f"{SITE}/torch/version.py": version})
    files[f"{SITE}/torch-2.10.0.dist-info/METADATA"] = "Name: torch\n"
    report = machine.doctor(root=machines.write(tmp_path / "m", files))
    assert report.records[0].facts["machine.torch"].value["version"] == "2.13.0+rocm7.2"
    (finding,) = next(o.findings for o in report.outcomes if o.code == "MACH051")
    assert "2.10.0" in finding.message and "2.13.0+rocm7.2" in finding.message


@pytest.mark.parametrize("name", ["torchvision", "torch"])
def test_what_was_built_by_hand_is_neither_held_nor_broken(tmp_path, name):
    said = look(tmp_path, desktop(packages={name: "2.13.0a0+git1a2b3c"}))
    assert said["MACH051"].verdict is not Verdict.HELD
    messages = [f.message for f in said["MACH051"].findings]
    assert not [one for one in messages if "of another build" in one]


def test_links_in_a_circle_and_out_of_the_tree_are_passed_over(tmp_path):
    root = machines.write(tmp_path / "m", desktop())
    (root / "sys/class/drm/card1").symlink_to("card1")
    (root / "sys/class/drm/again").symlink_to("..")
    (root / "sys/bus/pci/devices/0000:09:00.0").symlink_to(".")
    (root / "opt").symlink_to("..")
    (root / "proc/self").symlink_to("/etc")
    report = machine.doctor(root=root)
    assert len(report.records[0].facts["machine.gpus"].value) == 1
    assert max(o.severity for o in report.outcomes) is Severity.NOTE


def test_without_sys_nothing_of_cards_is_held(tmp_path):
    files = {k: v for k, v in desktop().items() if not k.startswith("sys")}
    for more in ({}, {"sys": "a file"}, {".dockerenv": ""}):
        said = look(tmp_path / str(len(str(more))), files | more)
        assert not [c for c, o in said.items() if o.verdict is Verdict.HELD and c < "MACH050"]


def test_three_hundred_nodes_are_read(tmp_path):
    more = {
        f"{NODES}/{n}/properties": machines.node(location_id=768 + n * 8, unique_id=n)
        for n in range(2, 300)
    }
    report = machine.doctor(root=machines.write(tmp_path / "m", desktop() | more))
    assert len(report.records[0].facts["machine.gpus"].value) == 299
