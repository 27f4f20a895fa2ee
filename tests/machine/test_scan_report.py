"""The verdict over a scan: what is told before a kernel fails."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from reefwatch.api.scan import scan
from reefwatch.core.errors import UsageError
from reefwatch.core.finding import Verdict
from reefwatch.core.report import ExitPolicy, Report, exit_code
from reefwatch.gather.machine.replay import CapturedHost
from reefwatch.shell import cli
from reefwatch.show import json as as_json
from tests.machine import bundles

SYSFS = Path(__file__).parents[1] / "data" / "sysfs"


@pytest.fixture
def folder(tmp_path):
    """A package with code for gfx90a and gfx1100, beside one with CUDA code."""
    for name, section, raw in [
        ("hip/a.so", ".hip_fatbin", bundles.bundle(["gfx90a", "gfx1100"])),
        ("cuda/b.so", ".nv_fatbin", bundles.fatbin((2, 80))),
    ]:
        path = tmp_path / "site-packages" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(bundles.shared_object({section: raw}))
    return tmp_path / "site-packages"


def verdicts(report: Report) -> dict[str, Verdict]:
    return {outcome.code: outcome.verdict for outcome in report.outcomes}


def test_held_and_broken(folder):
    report = scan(folder / "hip", ["gfx1100"])
    assert verdicts(report) == {"MACH201": Verdict.HELD}
    assert report.unclaimed["MACH202"] == "no CUDA code in 1 files looked into"
    assert exit_code(report, ExitPolicy()) == 0
    report = scan(folder, ["gfx1101"])
    assert verdicts(report) == {"MACH201": Verdict.BROKEN, "MACH202": Verdict.BROKEN}
    missing, cuda = (outcome.findings[0] for outcome in report.outcomes)
    assert missing.message == "hip/a.so carries code for gfx90a, gfx1100 and none for gfx1101"
    assert "HSA_OVERRIDE_GFX_VERSION=11.0.0" in missing.fix
    assert cuda.message == "cuda carries code for NVIDIA GPUs only (sm_80), with gfx1101 here"
    assert exit_code(report, ExitPolicy()) == 3
    assert json.loads(as_json.render(report))["command"] == "doctor"


def test_no_gpu_is_no_verdict(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    report = scan(folder, host=CapturedHost(tmp_path / "empty"))
    assert set(verdicts(report).values()) == {Verdict.UNPROVEN}


def test_the_gpus_of_the_machine_are_taken(folder):
    report = scan(folder / "hip", host=CapturedHost(SYSFS / "rx7900xtx-kfd-only"))
    assert report.records[0].fact("codes.gpus").value == ["gfx1100"]  # type: ignore[union-attr]
    assert verdicts(report)["MACH201"] is Verdict.HELD
    report = scan(folder / "hip", host=CapturedHost(SYSFS / "rx6900xt"))
    assert verdicts(report)["MACH201"] is Verdict.BROKEN


def test_what_cannot_be_read_proves_nothing(folder):
    (folder / "hip/c.so").write_bytes(b"\x7fELF" + bytes(100))
    report = scan(folder / "hip", ["gfx1100"])
    assert verdicts(report) == {"MACH201": Verdict.UNPROVEN, "MACH202": Verdict.UNPROVEN}
    assert "c.so" in report.outcomes[0].reason


def test_one_damaged_file_among_sound_ones_is_enough_for_doubt(folder, tmp_path):
    (folder / "cuda/c.so").write_bytes(b"\x7fELF" + bytes(100))
    assert verdicts(scan(folder / "cuda", ["gfx1100"])) == {
        "MACH201": Verdict.UNPROVEN,
        "MACH202": Verdict.BROKEN,
    }
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
        for path in (folder / "hip").iterdir():
            wheel.write(path, f"hip/{path.name}")
        wheel.writestr("hip/c.so", b"oops")
    report = scan(tmp_path / "a.whl", ["gfx1100"])
    assert set(verdicts(report).values()) == {Verdict.UNPROVEN}


def test_a_zip_that_cannot_be_listed_proves_nothing_about_databases(tmp_path):
    (tmp_path / "a.whl").write_bytes(b"PK\x03\x04" + bytes(90))
    told = verdicts(scan(tmp_path / "a.whl", ["gfx1100"]))
    assert set(told) == {"MACH201", "MACH202", "MACH203", "MACH204"}
    assert set(told.values()) == {Verdict.UNPROVEN}


def test_usage(folder):
    with pytest.raises(UsageError, match="no GPU target"):
        scan(folder, ["banana"])
    with pytest.raises(UsageError, match="--scan"):
        scan(folder / "gone", ["gfx1100"])


def test_the_targets_of_each_file_are_told(folder, capsys):
    assert cli.main(["doctor", "--scan", str(folder), "--gpu", "gfx1100"]) == 3
    out = capsys.readouterr().out
    assert "hip/a.so: gfx90a, gfx1100" in out and "cuda/b.so: sm_80" in out
