"""Whole machines, sound and broken: what doctor makes of them."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from reefwatch.api import machine
from reefwatch.core.finding import Outcome, Severity, Verdict
from reefwatch.core.report import Report
from tests.machine.machines import CPU_NODE, NODES, SITE, card, desktop, node, process, write


def doctor(root: Path, files: Any, links: Any = None) -> Report:
    return machine.doctor(root=write(root / "m", files, links or {}))


def _told(report: Report, code: str) -> Outcome:
    return next(one for one in report.outcomes if one.code == code)


def gpus(report: Report) -> list[dict[str, Any]]:
    return report.records[0].facts["machine.gpus"].value  # type: ignore


def broken(report: Report) -> dict[str, Outcome]:
    return {o.code: o for o in report.outcomes if o.verdict is Verdict.BROKEN}


def test_a_sound_desktop_has_nothing_wrong(tmp_path: Path) -> None:
    report = doctor(tmp_path, desktop())
    assert broken(report) == {}
    assert not [o.code for o in report.outcomes if o.verdict is Verdict.ERRORED]
    assert gpus(report)[0]["name"] == "AMD Radeon RX 7900 XTX"
    held = {o.code for o in report.outcomes if o.verdict is Verdict.HELD}
    assert {"MACH001", "MACH010", "MACH030", "MACH040", "MACH050", "MACH062", "MACH070"} <= held


EACCES = {"open": "EACCES", "gid": 109, "mode": "0660"}
OK = {"open": "ok", "gid": 109, "mode": "0660"}
STRIX_HALO = {
    f"{NODES}/1/properties": node(gfx_target_version=110501, device_id=0x1586, unique_id=0),
}
CARD = "sys/class/drm/card0/device"
LINK = "sys/devices/pci0000:00/0000:00:02.1/0000:02:00.0/0000:03:00.0/x"
TWO = {
    f"{NODES}/2/properties": node(location_id=0x0B00, unique_id=77, drm_render_minor=129),
}
FAULTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "override that is not needed": (
        "MACH001", {"environ": {"HSA_OVERRIDE_GFX_VERSION": "11.0.0"}}, "gfx1100 already"),
    "all hidden": ("MACH002", {"environ": {"HIP_VISIBLE_DEVICES": "-1"}}, "hides all"),
    "ROCR and HIP": (
        "MACH002", {"environ": {"ROCR_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "1"}}, "hides"),
    "system libraries in front": (
        "MACH003", {"environ": {"LD_LIBRARY_PATH": "/opt/rocm/lib"}}, "LD_LIBRARY_PATH"),
    "no right to open": (
        "MACH010", {"process": {"nodes": {"/dev/kfd": EACCES, "/dev/dri/renderD128": OK}}},
        "EACCES"),
    "no kfd in the container": (
        "MACH010", {"process": {"nodes": {"/dev/kfd": {"open": "ENOENT"}}}, ".dockerenv": ""},
        "docker container"),
    "driver of another kernel": (
        "MACH021", {"var__lib__dkms__amdgpu__6.16.13-1__6.8.0-41-generic__x": ""}, "6.8.0-41"),
    "no atomics": (
        "MACH040", {NODES + "/1/io_links/0/properties": "node_to 0\nflags 13\n"}, "atomics"),
    "four lanes": ("MACH041", {"sys__class__drm__card0__device__current_link_width": "4\n"}, "x4"),
    "a screen": ("MACH044", {"sys__class__drm__card0-DP-1__status": "connected\n"}, "card0-DP-1"),
    "CUDA torch": (
        "MACH050",
        {"packages": {"torch": "2.13.0", "torchvision": "0.28.0", "triton_rocm": ""},
         SITE + "/torch/version.py": "hip = None\ncuda: Optional[str] = '12.8'\n"},
        "built for CUDA"),
    "CUDA torchvision": ("MACH051", {"packages": {"torchvision": "0.28.0"}}, "another build"),
    "PyPI triton": ("MACH052", {"packages": {"triton": "3.9.0"}}, "beside triton-rocm"),
    "execstack": (
        "MACH055",
        {"process": {"libc": "glibc 2.41",
                     "binaries": {"/x/libamdhip64.so": {"needed": [], "execstack": True}}}},
        "executable stack"),
    "CUDA extension": (
        "MACH056",
        {"process": {"binaries": {
            f"/{SITE}/flash_attn_2_cuda.so": {"needed": ["libcudart.so.12"], "execstack": False}}}},
        "built for CUDA"),
    "two ROCm": ("MACH060", {SITE + "/_rocm_sdk_core/lib/libamdhip64.so.7": ""}, "2 copies"),
    "older ROCm under opt": ("MACH061", {"opt__rocm__.info__version": "6.2.0-66\n"}, "6.2.0"),
    "no kernel file": (
        "MACH062",
        {SITE + "/torch/lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat": None,
         SITE + "/torch/lib/rocblas/library/TensileLibrary_lazy_gfx942.dat": ""}, "gfx1100"),
    "xformers": ("MACH072", {"packages": {"xformers": "0.0.33"}}, "xformers"),
    "bitsandbytes of another ROCm": (
        "MACH073",
        {"packages": {"bitsandbytes": "0.49.0"},
         "process": {"binaries": {"/x/libbitsandbytes_rocm64.so": {"needed": []}}}}, "rocm"),
    "cache on NFS": (
        "MACH090",
        {"process": {"folders": {"miopen cache": {"path": "/n", "disk": "nfs4"}}}},
        "nfs4"),
    "memory in use": (
        "MACH091", {"sys__class__drm__card0__device__mem_info_vram_used": "20000000000\n"},
        "in use"),
    "a hang": (
        "MACH024",
        {"commands.json": json.dumps([
            {"argv": ["dmesg"], "code": 0, "err": "", "out": "amdgpu: ring comp_1.0.0 timeout"}])},
        "ring comp_1.0.0"),
    "TunableOp": ("MACH004", {"environ": {"PYTORCH_TUNABLEOP_ENABLED": "1"}}, "TUNABLEOP"),
    "forced hipBLASLt": (
        "MACH005", {"environ": {"TORCH_BLAS_PREFER_HIPBLASLT": "1"}}, "prefers hipBLAS"),
    "enforced search": ("MACH006", {"environ": {"MIOPEN_FIND_ENFORCE": "3"}}, "FIND_ENFORCE=3"),
    "AITER": ("MACH007", {"environ": {"VLLM_ROCM_USE_AITER": "1"}}, "AITER"),
    "serialised kernels": ("MACH008", {"environ": {"AMD_SERIALIZE_KERNEL": "3"}}, "SERIALIZE"),
    "another kfd": (
        "MACH010",
        {"process": {"nodes": {"/dev/kfd": OK | {"device": "1:3"}, "/dev/dri/renderD128": OK}},
         "sys__class__kfd__kfd__dev": "235:0\n"}, "another file"),
    "firmware that hangs": (
        "MACH022", STRIX_HALO | {f"{CARD}/fw_version/mes_fw_version": "0x83\n"},
        "0x83"),
    "waves on an old kernel": (
        "MACH023", STRIX_HALO | {"proc__sys__kernel__osrelease": "6.17.8\n"}, "cwsr_enable"),
    "driver of another ROCm": (
        "MACH025", {"sys__module__amdgpu__version": "7.1.3.31500000\n"}, "it is listed with 10.1"),
    "no node of KFD's": (
        "MACH030",
        {f"{NODES}/1/{name}": None for name in (
            "properties", "gpu_id", "mem_banks/0/properties", "io_links/0/properties")},
        "KFD has no node"),
    "a chipset slot": ("MACH042", TWO | {LINK: "behind a bridge"}, "behind 1 bridge"),
    "IOMMU without pt": (
        "MACH043", TWO | {"sys__kernel__iommu_groups__0__x": ""}, "iommu=pt"),
    "held power": (
        "MACH045",
        {"sys__class__drm__card0__device__hwmon__hwmon5__name": "amdgpu\n",
         "sys__class__drm__card0__device__hwmon__hwmon5__power1_cap": "150000000\n",
         "sys__class__drm__card0__device__hwmon__hwmon5__power1_cap_default": "303000000\n"},
        "150 of 303 W"),
    "no kernels of AMD's channel": (
        "MACH053", {"packages": {"torch": "2.14.0+rocm10.1.0"}}, "amd-torch-device-gfx1100"),
    "no torch": (
        "MACH059", {"packages": {"torch": ""}, SITE + "/torch/version.py": None}, "not installed"),
    "a card that the wheel lacks": (
        "MACH070",
        {f"{NODES}/1/properties": node(gfx_target_version=100302, device_id=0x73FF),
         SITE + "/torch/lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat": None,
         "sys__class__drm__card0__device__uevent": card("0000:03:00.0", "1002:73FF")["uevent"]},
        "gfx1032"),
    "a release with a known defect": (
        "MACH074",
        {"packages": {"torch": "2.9.1+rocm6.4", "torchvision": "0.24.1+rocm6.4"},
         f"{NODES}/1/properties": node(gfx_target_version=110001, device_id=0x747E)}, "hipBLASLt"),
}  # fmt: skip


def fault(root: Path, changed: dict[str, Any]) -> Report:
    """The desktop with something changed; a path below sys/devices makes the card's real place."""
    files, links = desktop(**changed), {}
    if LINK in changed:
        pci = "sys/bus/pci/devices/0000:03:00.0"
        del files[f"{pci}/class"]
        links = {pci: LINK.rpartition("/")[0]}
    return doctor(root, files, links)


@pytest.mark.parametrize("name", FAULTS)
def test_one_fault_is_found(name: str, tmp_path: Path) -> None:
    code, changed, words = FAULTS[name]
    report = fault(tmp_path, changed)
    found = broken(report)
    assert code in found, report.last_line()
    told = " ".join(f.message + f.fix for f in found[code].findings)
    assert words.lower() in told.lower()
    assert all(f.fix and f.why for f in found[code].findings)


def test_a_strix_point_has_both_its_memories(tmp_path: Path) -> None:
    """Values of a public report: bank = GTT 16441004032, carve-out 536870912, unique_id 0."""
    files = {
        f"{NODES}/0/properties": CPU_NODE,
        f"{NODES}/1/properties": node(
            simd_count=24, gfx_target_version=110500, device_id=5390, location_id=49408,
            unique_id=0, fw_version=32,
        ),
        f"{NODES}/1/name": b"ip discovery\0\0",
        f"{NODES}/1/mem_banks/0/properties": "heap_type 1\nsize_in_bytes 16441004032\n",
    }  # fmt: skip
    made = card("0000:c1:00.0", "1002:150E", mem_info_vram_total="536870912",
                mem_info_gtt_total="16441004032")  # fmt: skip
    files |= {f"sys/class/drm/card1/device/{name}": text for name, text in made.items()}
    (gpu,) = gpus(doctor(tmp_path, files))
    assert gpu["gfx"] == "gfx1150" and gpu["compute_units"] == 12 and gpu["integrated"] is True
    assert (gpu["vram"], gpu["gtt"], gpu["kfd_memory"]) == (536870912, 16441004032, 16441004032)
    assert gpu["unique_id"] == {"unknown": "the card has no unique id"}
    assert gpu["slot"] == "0000:c1:00.0" and gpu["views"] == ["kfd", "drm"]


def test_partitions_of_two_domains_are_not_one_card(tmp_path: Path) -> None:
    """MI308X in CPX: the same location in PCI domains 0 and 1."""
    rows = ((2, 0, 2560, 128), (3, 0, 2561, 129), (10, 1, 2560, 144))
    files = {
        f"{NODES}/{number}/properties": node(
            simd_count=80, simd_per_cu=4, gfx_target_version=90402, device_id=29858,
            domain=domain, location_id=where, drm_render_minor=minor, unique_id=7 + domain,
        )
        for number, domain, where, minor in rows
    }  # fmt: skip
    files |= {
        f"{NODES}/{n}/mem_banks/0/properties": "heap_type 1\nsize_in_bytes 51539607552\n"
        for n in (2, 3, 10)
    }
    report = doctor(tmp_path, files)
    found = gpus(report)
    assert [gpu["slot"] for gpu in found] == ["0000:0a:00.0", "0000:0a:00.1", "0001:0a:00.0"]
    assert [gpu["partition"] and gpu["partition"]["number"] for gpu in found] == [0, 1, None]
    assert {gpu["vram"] for gpu in found} == {51539607552} and {g["gfx"] for g in found} == {
        "gfx942"
    }
    assert report.records[0].facts["machine.cards"].value == 2  # type: ignore
    assert {gpu["name"] for gpu in found} == {"AMD Instinct MI308X"}


def test_a_masked_node_is_told_and_not_counted(tmp_path: Path) -> None:
    files = desktop(**{f"{NODES}/2/gpu_id": "0"})
    files["capture.json"] = json.dumps(
        {"schema": 1, "unreadable": {
            f"/{NODES}/2/properties": f"/{NODES}/2/properties may not be read by this process"}}
    )  # fmt: skip
    report = doctor(tmp_path, files)
    assert len(gpus(report)) == 1
    assert "MACH011" in broken(report)


def test_an_integrated_gpu_beside_the_card(tmp_path: Path) -> None:
    changed = {
        f"{NODES}/2/properties": node(
            simd_count=4, gfx_target_version=100306, device_id=0x164E, location_id=0x0E00,
            unique_id=0, drm_render_minor=129,
        ),
    }  # fmt: skip
    report = doctor(tmp_path, desktop(**changed))
    assert [gpu["integrated"] for gpu in gpus(report)] == [False, True]
    assert broken(report)["MACH031"].findings[0].fix == "export ROCR_VISIBLE_DEVICES=0"
    hidden = desktop(environ={"ROCR_VISIBLE_DEVICES": "0"}, **changed)
    assert "MACH031" not in broken(doctor(tmp_path / "b", hidden))


@pytest.mark.parametrize(
    ("revision", "name"),
    [("0xc8", "AMD Radeon RX 7900 XTX"), ("0xcc", "AMD Radeon RX 7900 XT"),
     ("0xce", "AMD Radeon RX 7900 GRE")],
)  # fmt: skip
def test_cards_of_one_id_are_told_apart_by_revision(
    revision: str, name: str, tmp_path: Path
) -> None:
    made = card("0000:03:00.0", "1002:744C", revision=revision)
    files = {f"sys/class/drm/card0/device/{n}": text for n, text in made.items()}
    (gpu,) = gpus(doctor(tmp_path, files))
    assert gpu["name"] == name
    made = card("0000:03:00.0", "1002:744C")
    files = {f"sys/class/drm/card0/device/{n}": text for n, text in made.items()}
    config = bytearray(64)
    config[8] = int(revision, 16)
    files["sys/class/drm/card0/device/config"] = bytes(config)  # type: ignore
    (gpu,) = gpus(doctor(tmp_path / "b", files))
    assert gpu["name"] == name


def test_a_card_without_a_driver_is_seen_by_pci(tmp_path: Path) -> None:
    pci = "sys/bus/pci/devices/0000:03:00.0"
    files = {
        f"{pci}/class": "0x030000\n", f"{pci}/vendor": "0x1002\n", f"{pci}/device": "0x744c\n",
        f"{pci}/revision": "0xc8\n", "capture.json": '{"schema": 1}',
        "process.json": json.dumps(process()),
    }  # fmt: skip
    report = doctor(tmp_path, files, {f"{pci}/driver": "sys/bus/pci/drivers/vfio-pci"})
    assert gpus(report)[0]["views"] == ["pci"] and gpus(report)[0]["driver"] == "vfio-pci"
    assert "vfio-pci" in broken(report)["MACH020"].findings[0].message


def test_the_slot_is_the_link_of_the_cards_own_switch(tmp_path: Path) -> None:
    """0000:01:00.0 and 0000:02:00.0 are the card's switch; the chipset's bridges come above."""
    real = "sys/devices/pci0000:00/0000:00:02.1/0000:0a:00.0/0000:01:00.0/0000:02:00.0/0000:03:00.0"
    above = real.rsplit("/", 2)[0]
    files = desktop() | {
        f"{real}/vendor": "0x1002\n",
        f"{real.rpartition('/')[0]}/vendor": "0x1002\n",
        f"{above}/vendor": "0x1002\n",
        f"{above}/current_link_width": "1\n", f"{above}/max_link_width": "16\n",
        f"{above}/current_link_speed": "8.0 GT/s PCIe\n",
        f"{above}/max_link_speed": "16.0 GT/s PCIe\n",
        f"{above.rpartition('/')[0]}/vendor": "0x1022\n",
    }  # fmt: skip
    del files["sys/bus/pci/devices/0000:03:00.0/class"]
    report = doctor(tmp_path, files, {"sys/bus/pci/devices/0000:03:00.0": real})
    assert gpus(report)[0]["link"]["width"] == 1.0 and gpus(report)[0]["bridges"] == 1
    assert "MACH041" in broken(report)


def test_rows_that_are_recalled_are_no_hard_failure(tmp_path: Path) -> None:
    report = doctor(tmp_path, desktop(environ={"TRITON_INTERPRET": "1"}))
    (outcome,) = [o for o in report.outcomes if o.code == "MACH008"]
    assert outcome.findings and outcome.severity is Severity.NOTE
    assert outcome.verdict is Verdict.HELD


def test_a_users_rows_lie_over_the_tables(tmp_path: Path) -> None:
    root = write(tmp_path / "m", {
        f"sys/class/drm/card0/device/{n}": t
        for n, t in card("0000:03:00.0", "1002:BEEF", revision="0x01").items()
    })  # fmt: skip
    plain = machine.doctor(root=root)
    assert gpus(plain)[0]["gfx"] == {"unknown": "device beef is not in the table of cards"}
    own = tmp_path / "own.toml"
    own.write_text(
        '[[gpus.gpu]]\nname = "A New Card"\narch = "gfx1300"\n'
        'pci = [{ device = "0xbeef", revision = "0x01" }]\n'
        '[gpus.arch.gfx1300]\nfamily = "RDNA9"\nwavefront = 32\n'
    )
    report = machine.doctor(root=root, data=own)
    assert (gpus(report)[0]["name"], gpus(report)[0]["gfx"]) == ("A New Card", "gfx1300")
    assert gpus(report)[0]["wavefront"] == 32


def test_a_revision_that_no_row_has_names_no_card(tmp_path: Path) -> None:
    files = {f"sys/class/drm/card0/device/{n}": t
             for n, t in card("0000:03:00.0", "1002:7340", revision="0xc1").items()}  # fmt: skip
    (gpu,) = gpus(doctor(tmp_path, files))
    assert gpu["name"]["candidates"] == ["AMD Radeon RX 5500 XT"] and "c1" in gpu["name"]["unknown"]
    files["sys/class/drm/card0/device/revision"] = "0xc5\n"
    (gpu,) = gpus(machine.doctor(root=write(tmp_path / "c5", files)))
    assert gpu["name"] == "AMD Radeon RX 5500 XT"


def test_a_card_without_a_slot_is_listed_once(tmp_path: Path) -> None:
    """A copied tree has lost the link of DRM's card: the function of the bus is the same card."""
    pci = "sys/bus/pci/devices/0000:03:00.0"
    files = {"sys/class/drm/card0/device/vendor": "0x1002\n",
             "sys/class/drm/card0/device/device": "0x744c\n",
             f"{pci}/class": "0x030000\n", f"{pci}/revision": "0xc8\n",
             f"{pci}/uevent": "DRIVER=amdgpu\nPCI_ID=1002:744C\n"}  # fmt: skip
    (gpu,) = gpus(doctor(tmp_path, files))
    assert (gpu["slot"], gpu["card"], gpu["driver"]) == ("0000:03:00.0", "card0", "amdgpu")


def test_a_driver_is_missing_only_where_it_could_be_seen(tmp_path: Path) -> None:
    pci = "sys/bus/pci/devices/0000:03:00.0"
    ids = {f"{pci}/vendor": "0x1002\n", f"{pci}/device": "0x744c\n", f"{pci}/class": "0x030000\n"}
    report = doctor(tmp_path / "a", ids)
    assert _told(report, "MACH020").verdict is Verdict.UNPROVEN
    told = {**ids, f"{pci}/uevent": "PCI_CLASS=30000\nPCI_ID=1002:744C\n"}
    assert _told(doctor(tmp_path / "b", told), "MACH020").verdict is Verdict.BROKEN


@pytest.mark.parametrize("where", ["", "sys", ".."])
def test_a_tree_is_found_around_and_within(where: str, tmp_path: Path) -> None:
    root = write(tmp_path / "m" / "tree", desktop())
    report = machine.doctor(root=root / where if where != ".." else root.parent)
    assert len(gpus(report)) == 1 and not report.remarks
    assert "nothing of a machine" in machine.doctor(root=tmp_path).remarks[0]


def test_an_old_kernel_joins_by_the_render_node(tmp_path: Path) -> None:
    """No domain in KFD, and the card is in domain 1: the render node says which card it is."""
    text = "".join(
        line for line in node(location_id=768).splitlines(True) if not line.startswith("domain")
    )
    made = card("0001:03:00.0", "1002:744C", revision="0xcc")
    files = {f"sys/class/drm/card2/device/{name}": text for name, text in made.items()}
    files |= {
        f"{NODES}/1/properties": text,
        "sys/class/drm/renderD128/device/uevent": made["uevent"],
    }
    (gpu,) = gpus(doctor(tmp_path, files))
    assert gpu["slot"] == "0001:03:00.0" and gpu["views"] == ["kfd", "drm"]
    assert gpu["name"] == "AMD Radeon RX 7900 XT"


def test_a_card_of_which_only_the_vendor_is_told(tmp_path: Path) -> None:
    files = {
        "sys/class/drm/card1/device/vendor": "0x1002\n",
        "sys/class/drm/card1/device/device": "0x744c\n",
        "sys/class/drm/card1-DP-1/status": "connected\n",
        "sys/class/drm/card0/device/vendor": "0x1a03\n",
    }
    report = doctor(tmp_path, files)
    (gpu,) = gpus(report)
    assert gpu["slot"] == {"unknown": "nothing tells the slot of card1"}
    assert gpu["gfx"] == "gfx1100" and gpu["screens"] == ["card1-DP-1"]


def test_an_unknown_card_tells_its_graphics_core(tmp_path: Path) -> None:
    made = card("0000:03:00.0", "1002:BEEF")
    made |= {
        f"ip_discovery/die/0/11/0/{name}": text
        for name, text in (("major", "12"), ("minor", "0"), ("revision", "1"))
    }
    files = {f"sys/class/drm/card0/device/{name}": text for name, text in made.items()}
    (gpu,) = gpus(doctor(tmp_path, files))
    assert gpu["gc"] == "12.0.1" and gpu["gfx"]["candidates"] == ["gfx1201"]
    assert "beef" in gpu["gfx"]["unknown"]


def test_a_limit_that_a_user_set_is_told() -> None:
    """The captured RX 9070 XT is held to 120 of 304 W."""
    tree = Path(__file__).parents[1] / "data/sysfs/rx9070xt"
    found = broken(machine.doctor(root=tree))
    assert "120 of 304 W" in found["MACH045"].findings[0].message


def test_two_cards_of_an_old_kernel_in_one_slot_are_two(tmp_path: Path) -> None:
    """A public capture with two Vega 10 cards, no domain, and one location for both."""
    text = "".join(
        line
        for line in node(gfx_target_version=0, device_id=26720, location_id=6400).splitlines(True)
        if not line.startswith(("domain", "gfx_target", "unique"))
    )
    files = {f"{NODES}/{n}/properties": f"{text}unique_id {n + 6}\n" for n in (1, 2)}
    report = doctor(tmp_path, files)
    assert [gpu["partition"] for gpu in gpus(report)] == [None, None]
    assert report.records[0].facts["machine.cards"].value == 2  # type: ignore


def test_a_card_that_radeon_drives_is_told() -> None:
    """An HD 7870 as LACT captured it: no table has it, and ROCm cannot drive it."""
    made = card("0000:01:00.0", "1002:6818")
    made["uevent"] = made["uevent"].replace("amdgpu", "radeon")
    with tempfile.TemporaryDirectory() as folder:
        files = {f"sys/class/drm/card0/device/{name}": text for name, text in made.items()}
        found = broken(machine.doctor(root=write(Path(folder) / "m", files)))
    assert "radeon" in found["MACH020"].findings[0].message
