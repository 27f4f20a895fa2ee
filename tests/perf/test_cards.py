"""Cards and nodes of captured machines, and which of them torch uses."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from perf_stage import SYSFS, pretend_torch, strix

from reefwatch.core.fact import Unknown
from reefwatch.gather.host import ReplayedHost
from reefwatch.gather.perf.cards import (
    Card,
    TorchDevice,
    Unused,
    arch_of,
    drm_cards,
    find_card,
    kfd_nodes,
    same_slot,
    torch_device,
    visible,
)


def host(name: str) -> ReplayedHost:
    return ReplayedHost(SYSFS / name)


def test_kfd_of_a_7900_xtx() -> None:
    (node,) = kfd_nodes(host("rx7900xtx-kfd-only"))
    assert (node.number, node.arch, node.slot, node.max_clock) == (
        1,
        "gfx1100",
        "0000:86:00.0",
        2482,
    )


def test_kfd_of_eight_mi210_in_numeric_order() -> None:
    nodes = kfd_nodes(host("mi210-x8"))
    assert [node.number for node in nodes] == [2, 3, 4, 5, 6, 7, 8, 9]
    assert {node.arch for node in nodes} == {"gfx90a"}
    assert nodes[0].slot == "0000:63:00.0"
    assert len({node.slot for node in nodes}) == len({node.unique_id for node in nodes}) == 8


def test_partitions_of_a_card_share_its_slot() -> None:
    nodes = kfd_nodes(host("mi300-cpx"))
    assert [node.number for node in nodes] == [2, 3, 10]
    assert {node.arch for node in nodes} == {"gfx942"}
    assert nodes[0].slot == nodes[1].slot == "0000:05:00.0"
    assert nodes[0].unique_id == nodes[1].unique_id != nodes[2].unique_id


def test_kfd_of_an_old_kernel() -> None:
    (node,) = kfd_nodes(host("vega10-old-kfd"))
    assert (node.arch, node.slot, node.max_clock) == ("", "0000:19:00.0", 1500)
    assert node.vram == 17163091968


@pytest.mark.parametrize(
    ("name", "slot", "device"),
    [
        ("rx7900xtx", "0000:03:00.0", "744c"),
        ("rx9070xt", "0000:0f:00.0", "7550"),
        ("rx6900xt", "0000:0c:00.0", "73bf"),
    ],
)
def test_drm_cards(name: str, slot: str, device: str) -> None:
    (card,) = drm_cards(host(name))
    assert (card.slot, card.vendor, card.device) == (slot, "1002", device)
    assert card.integrated is False
    assert card.vram == (17163091968 if name == "rx6900xt" else None)


def test_an_integrated_gpu_is_told_from_a_discrete_one(tmp_path: Path) -> None:
    cards = drm_cards(strix(tmp_path))
    assert [(card.device, card.integrated) for card in cards] == [("7550", False), ("150e", True)]


def test_the_format_of_gpu_metrics_tells_an_apu(tmp_path: Path) -> None:
    device = tmp_path / "sys/class/drm/card0/device"
    device.mkdir(parents=True)
    (device / "uevent").write_text("PCI_ID=1002:1234\nPCI_SLOT_NAME=0000:03:00.0\n")
    assert drm_cards(ReplayedHost(tmp_path))[0].integrated is None
    for form, integrated in ((1, False), (2, True), (3, True)):
        (device / "gpu_metrics").write_bytes(bytes([8, 0, form, 0, 1, 1, 1, 1]))
        assert drm_cards(ReplayedHost(tmp_path))[0].integrated is integrated


def test_no_card_and_no_sysfs(tmp_path: Path) -> None:
    empty = ReplayedHost(tmp_path)
    assert (drm_cards(empty), kfd_nodes(empty)) == ((), ())
    device = TorchDevice(0, "x", True, "0000:03:00.0", None, None)
    assert find_card(empty, device, {}) == Unknown("no AMD card is to be seen in /sys/class/drm")


def test_slots() -> None:
    assert same_slot("0000:03:00.0", "00000000:03:00.0")
    assert same_slot("0000:C1:00.0", "0000:c1:00.1")
    assert not same_slot("0000:03:00.0", "0001:03:00.0")
    assert not same_slot(None, None)


@pytest.mark.parametrize(
    ("target", "arch"),
    [(90010, "gfx90a"), (90402, "gfx942"), (100300, "gfx1030"), (110501, "gfx1151"), (0, "")],
)
def test_arch_names(target: int, arch: str) -> None:
    assert arch_of(target) == arch


UUIDS = ["GPU-00aa", "GPU-00ab", "GPU-01cc"]


@pytest.mark.parametrize(
    ("environ", "hip", "order"),
    [
        ({}, True, (0, 1, 2)),
        ({"HIP_VISIBLE_DEVICES": "2,0"}, True, (2, 0)),
        ({"CUDA_VISIBLE_DEVICES": "1"}, True, (1,)),
        ({"CUDA_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "2"}, True, (2,)),
        ({"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "1"}, True, (2,)),
        ({"ROCR_VISIBLE_DEVICES": "GPU-01cc"}, True, (2,)),
        ({"ROCR_VISIBLE_DEVICES": "0"}, False, (0, 1, 2)),
        ({"CUDA_VISIBLE_DEVICES": "0,7,1"}, False, (0,)),
        ({"CUDA_VISIBLE_DEVICES": "GPU-00"}, False, ()),
        ({"CUDA_VISIBLE_DEVICES": "gpu-00ab"}, False, (1,)),
        ({"CUDA_VISIBLE_DEVICES": ""}, False, ()),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, False, ()),
    ],
)
def test_visible_devices(environ: dict[str, str], hip: bool, order: tuple[int, ...]) -> None:
    assert visible(UUIDS, environ, hip) == order


def test_the_card_is_found_by_slot_else_by_order(tmp_path: Path) -> None:
    tree = strix(tmp_path)
    by_slot = TorchDevice(0, "x", True, "0000:c1:00.0", None, None)
    assert isinstance(card := find_card(tree, by_slot, {}), Card) and card.device == "150e"
    for number, location in ((1, 3 << 8), (2, 0xC1 << 8)):
        node = tmp_path / f"sys/class/kfd/kfd/topology/nodes/{number}"
        node.mkdir(parents=True)
        (node / "properties").write_text(f"simd_count 64\nlocation_id {location}\ndomain 0\n")
    by_order = TorchDevice(0, "x", True, None, None, None)
    for environ, device in (({}, "7550"), ({"HIP_VISIBLE_DEVICES": "1"}, "150e")):
        card = find_card(tree, by_order, environ)
        assert isinstance(card, Card) and card.device == device
    none = find_card(tree, by_order, {"HIP_VISIBLE_DEVICES": "-1"})
    assert none == Unknown("torch names no PCI slot, and KFD shows 0 visible GPUs")
    elsewhere = TorchDevice(0, "x", True, "0000:44:00.0", None, None)
    missing = find_card(tree, elsewhere, {})
    assert missing == Unknown("the card at 0000:44:00.0 is not in /sys/class/drm")


def test_torch_is_asked_only_once_it_uses_a_gpu() -> None:
    assert torch_device(pretend_torch(initialized=False)) == Unused(
        "torch did not begin to use a GPU"
    )
    assert torch_device(pretend_torch(peak=0)) == Unused("torch put no tensor on a GPU")
    device = torch_device(pretend_torch(slot=(0, 0xC1, 0)))
    assert isinstance(device, TorchDevice) and device.slot == "0000:c1:00.0" and device.hip
    device = torch_device(pretend_torch(slot=None))
    assert isinstance(device, TorchDevice) and device.slot is None
    broken = torch_device(object())
    assert type(broken) is Unknown and "AttributeError" in broken.reason


def test_the_real_torch_is_not_initialised() -> None:
    import torch

    before = torch.cuda.is_initialized()
    device = torch_device(torch)
    assert torch.cuda.is_initialized() is before
    assert isinstance(device, Unknown) or before


@given(st.dictionaries(st.sampled_from(["properties", "uevent", "bank"]), st.binary(max_size=200)))
def test_any_bytes_in_any_file(tmp_path_factory, files: dict[str, bytes]) -> None:  # type: ignore[no-untyped-def]
    root = tmp_path_factory.getbasetemp() / "cards"
    where = {
        "properties": "sys/class/kfd/kfd/topology/nodes/1/properties",
        "bank": "sys/class/kfd/kfd/topology/nodes/1/mem_banks/0/properties",
        "uevent": "sys/class/drm/card0/device/uevent",
    }
    heads = {
        "properties": b"simd_count 4\nlocation_id ",
        "uevent": b"PCI_SLOT_NAME=",
        "bank": b"heap_type 1\nsize_in_bytes ",
    }
    for name, path in where.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(heads[name] + files.get(name, b""))
    tree = ReplayedHost(root)
    for card in drm_cards(tree):
        assert card.folder == "/sys/class/drm/card0/device"
    assert len(kfd_nodes(tree)) <= 1
