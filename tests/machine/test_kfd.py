"""A node of KFD's topology that cannot be read is hidden, and not gone."""

import pytest

from reefwatch.gather.host import ReplayedHost
from reefwatch.gather.machine import kfd


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
