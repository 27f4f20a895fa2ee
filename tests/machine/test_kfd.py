"""A node of KFD's topology that cannot be read is hidden, and not gone."""

import re
import shutil
from pathlib import Path

import pytest

from reefwatch.api import machine
from reefwatch.core.finding import Verdict
from reefwatch.gather.host import ReplayedHost
from reefwatch.gather.machine import kfd
from reefwatch.show import machine as show

SYSFS = Path(__file__).parents[1] / "data" / "sysfs"
NODE = "sys/class/kfd/kfd/topology/nodes/1/properties"


@pytest.mark.parametrize("wrong", ["x9", "-7", "9" * 6000])
def test_a_node_whose_numbers_are_none_is_hidden(tmp_path, wrong):
    folder = tmp_path / "sys/class/kfd/kfd/topology/nodes/1"
    folder.mkdir(parents=True)
    (folder / "properties").write_text(f"cpu_cores_count 0\nsimd_count {wrong}\n")
    (node,) = kfd.nodes(ReplayedHost(tmp_path))
    assert node.hidden
    assert not node.is_gpu


def test_a_sound_node_is_a_gpu(tmp_path):
    folder = tmp_path / "sys/class/kfd/kfd/topology/nodes/1"
    folder.mkdir(parents=True)
    (folder / "properties").write_text("cpu_cores_count 0\nsimd_count 192\n")
    (node,) = kfd.nodes(ReplayedHost(tmp_path))
    assert node.is_gpu and not node.hidden


def doctor(tmp_path, properties: str | None, node: int = 1):
    """The report on a 7900 XTX of which one node's file was changed; None: it is gone."""
    root = tmp_path / "m"
    shutil.copytree(SYSFS / "rx7900xtx-kfd-only", root)
    path = root / f"sys/class/kfd/kfd/topology/nodes/{node}/properties"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if properties is not None:
        path.write_text(properties)
    return machine.doctor(root=root)


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        (None, "not granted"),
        ("", "it may be a GPU"),
        ("simd_count x\n", "it may be a GPU"),
        ("\0\0", "it may be a GPU"),
        ("words", "it may be a GPU"),
    ],
)
def test_why_a_node_is_hidden_is_told_by_how_it_is(tmp_path, properties, words):
    report = doctor(tmp_path, properties)
    (finding,) = next(o.findings for o in report.outcomes if o.code == "MACH011")
    assert words in finding.why


def test_of_a_machine_whose_only_gpu_is_hidden_nothing_is_held(tmp_path):
    report = doctor(tmp_path, "")
    held = {o.code for o in report.outcomes if o.verdict is Verdict.HELD}
    assert not held, held


@pytest.mark.parametrize("field", ["device_id", "vendor_id", "location_id", "gfx_target_version"])
@pytest.mark.parametrize("value", ["", "zz", "0", "-1", "99999999999", "0x744c"])
def test_a_card_is_never_shown_without_a_name(tmp_path, field, value):
    text = (SYSFS / "rx7900xtx-kfd-only" / NODE).read_text()
    report = doctor(tmp_path, re.sub(rf"(?m)^{field} .*$", f"{field} {value}", text))
    (gpu,) = report.records[0].facts["machine.gpus"].value
    assert "" not in [gpu[name] for name in ("name", "device", "gfx", "slot")]
    said = show.render(report, color=False, width=120)
    (line,) = [one for one in said.splitlines() if one.startswith("gpu 0")]
    assert "AMD ," not in line and ", ," not in line and "{" not in line and "(none)" not in said
