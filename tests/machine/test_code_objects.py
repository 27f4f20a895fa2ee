"""GPU code is found where it is, told apart, and nothing in a file can crash or exhaust us."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import struct
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reefwatch.data import targets
from reefwatch.gather.machine.code_objects import databases, elf, zstd
from reefwatch.gather.machine.code_objects.parts import Part, parts
from reefwatch.gather.machine.code_objects.scan import Code, scan
from reefwatch.gather.machine.code_objects.window import StreamWindow
from tests.machine import bundles

FRAMES = Path(__file__).parents[1] / "data" / "code_objects"
BOTH = ["gfx90a", "gfx1100"]


def found(raw: bytes, sure: bool = False) -> list[Part]:
    return list(parts(StreamWindow(io.BytesIO(raw), len(raw)), sure))


def only(path: Path) -> Code:
    made = scan(str(path))
    assert not made.unread
    (code,) = made.codes
    return code


def written(path: Path, raw: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("frame", sorted(FRAMES.glob("*.zst")), ids=lambda path: path.stem)
@pytest.mark.parametrize("wanted", [1, 300, 20_000, 1_000_000])
def test_zstd_as_the_reference_library_packed_it(frame, wanted):
    text = bundles.TEXTS[frame.stem.rpartition("-")[0]]
    assert zstd.prefix(frame.read_bytes(), wanted) == text[:wanted]


def frame(name: str = "bundle-3") -> bytes:
    return (FRAMES / f"{name}.zst").read_bytes()


@pytest.mark.parametrize(
    "raw",
    [
        bundles.bundle(BOTH),
        *(bundles.compressed(bundles.bundle(BOTH), version) for version in (1, 2, 3)),
    ],
    ids=["raw", "v1", "v2", "v3"],
)
def test_bundles(tmp_path, raw):
    assert only(written(tmp_path / "a.hipfb", raw)).targets == {"gfx90a": 1, "gfx1100": 1}
    library = bundles.shared_object({".text": b"\x90" * 99, ".hip_fatbin": raw.ljust(4096) + raw})
    code = only(written(tmp_path / "a.so", library))
    assert (code.parts, code.targets, code.unknown) == (2, {"gfx90a": 2, "gfx1100": 2}, ())


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("level", [1, 3, 19])
def test_zstd_bundles_need_no_package(tmp_path, version, level):
    packed = frame(f"bundle-{level}")
    raw = bundles.compressed(bundles.TEXTS["bundle"], version, packed)
    code = only(written(tmp_path / "a.hipfb", raw))
    assert set(code.targets) == {"gfx90a", "gfx942", "gfx1100", "gfx1101"}
    assert not code.unknown


def test_a_bundle_is_believed_by_its_code_not_by_its_name(tmp_path):
    wrong = {"gfx1100": bundles.code_object(bundles.MACH["gfx1030"])}
    code = only(written(tmp_path / "a.hipfb", bundles.bundle(["gfx1100"], wrong)))
    assert code.targets == {"gfx1030": 1}
    assert code.unknown == ("an entry is called gfx1100 and holds code for gfx1030",)


@pytest.mark.parametrize(
    ("flags", "abi", "name"),
    [
        (0x41, 3, "gfx1100"),
        (0x3F | 0x200 | 0xC00, 2, "gfx90a:sramecc+:xnack-"),
        (0x3F | 0x300 | 0x800, 3, "gfx90a:sramecc-:xnack+"),
        (0x3F | 0x100 | 0x400, 3, "gfx90a"),
        (0x3F | 0x300, 1, "gfx90a:sramecc+:xnack+"),
        (0x54 | 1 << 24, 4, "gfx11-generic"),
    ],
)
def test_code_objects_by_their_flags(tmp_path, flags, abi, name):
    code = only(written(tmp_path / "a.hsaco", bundles.code_object(flags, abi)))
    assert code.targets == {name: 1}


def test_an_unknown_processor_is_said_to_be_one(tmp_path):
    made = scan(str(written(tmp_path / "a.hsaco", bundles.code_object(0xEE))))
    assert made.unread == [
        ("a.hsaco", "a code object for an unknown processor (EF_AMDGPU_MACH 0xee)")
    ]


def test_cuda_is_named(tmp_path):
    raw = bundles.fatbin((2, 75), (2, 90), (1, 90)) + bytes(8) + bundles.fatbin((2, 75))
    code = only(written(tmp_path / "a.so", bundles.shared_object({".nv_fatbin": raw})))
    assert (code.parts, code.targets) == (2, {"sm_75": 2, "sm_90": 1, "ptx_90": 1})


def test_what_is_compiled_on_load():
    spirv = b"hip-spirv64-amd-amdhsa--amdgcnspirv"
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<QQQQ", 1, 128, 8, len(spirv)) + spirv
    assert found(head.ljust(136, b"\0"), True)[0].targets == ("spirv",)


def test_a_wheel_and_its_unpacked_folder_tell_the_same(tmp_path):
    raw = bundles.compressed(bundles.bundle(BOTH), 3)
    inside = {
        "pkg/lib_hip.so": bundles.shared_object({".hip_fatbin": raw + bundles.bundle(["gfx942"])}),
        "pkg/lib_cuda.so": bundles.shared_object({".nv_fatbin": bundles.fatbin((2, 80))}),
        "pkg/embedded.so": bundles.shared_object(
            {".rodata": b"x" * 77 + bundles.code_object(0x41)}
        ),
        "pkg/plain.so": bundles.shared_object(
            {".rodata": b"__CLANG_OFFLOAD_BUNDLE__ CCOB\3\0\1\0"}
        ),
        "pkg/library/TensileLibrary_gfx1100.co": bundles.code_object(0x41),
        "pkg/module.py": b"print()",
    }
    for name, data in inside.items():
        written(tmp_path / "site-packages" / name, data)
    wheels = []
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(tmp_path / f"{method}.whl", "w", method) as wheel:
            for name, data in sorted(inside.items()):
                wheel.writestr(name, data)
        wheels.append(scan(str(tmp_path / f"{method}.whl")))
    folder = scan(str(tmp_path / "site-packages"))
    assert {code.path: code for code in folder.codes} == {c.path: c for c in wheels[0].codes}
    assert wheels[0].codes == wheels[1].codes
    assert {code.path for code in folder.codes} == set(inside) - {"pkg/plain.so", "pkg/module.py"}
    assert folder.looked == wheels[0].looked == 5
    assert folder.databases == wheels[0].databases
    assert {code.package for code in folder.codes} == {"pkg"}


def test_a_folder_with_odd_files(tmp_path):
    os.mkfifo(tmp_path / "pipe.so")
    (tmp_path / "gone.so").symlink_to("nowhere")
    library = written(
        tmp_path / "a.so", bundles.shared_object({".hip_fatbin": bundles.bundle(BOTH)})
    )
    (tmp_path / "b.so").symlink_to(library)
    (tmp_path / "loop").symlink_to(tmp_path)
    made = scan(str(tmp_path))
    assert [code.path for code in made.codes] == ["a.so"]
    assert made.unread == [("gone.so", "No such file or directory")]
    assert stat.S_ISFIFO((tmp_path / "pipe.so").stat().st_mode)


def test_a_file_that_is_no_code(tmp_path):
    made = scan(str(written(tmp_path / "a.txt", b"words")))
    assert made.unread == [("a.txt", "it is no ELF file, no bundle of GPU code and no zip")]
    made = scan(str(written(tmp_path / "a.whl", b"PK\x03\x04 no zip")))
    assert len(made.unread) == 1 and "the zip cannot be read" in made.unread[0][1]
    with pytest.raises(OSError):
        scan(str(tmp_path / "gone"))


def test_damage_is_told(tmp_path):
    whole = bundles.shared_object({".hip_fatbin": bundles.bundle(BOTH)})
    made = scan(str(written(tmp_path / "a.so", whole[:-40])))
    assert made.unread == [
        ("a.so", "an ELF file that is cut off: its section headers are not there")
    ]
    raw = bundles.compressed(bundles.bundle(BOTH), 3)
    for broken, words in [
        (raw[:60], "a compressed bundle is cut off"),
        (raw[:32] + bytes(len(raw) - 32), "a compressed bundle does not unpack"),
        (bundles.bundle(BOTH)[:200], "an offload bundle is cut off"),
        (b"__CLANG_OFFLOAD_BUNDLE__" + b"\xff" * 64, "the table of an offload bundle is damaged"),
    ]:
        code = only(written(tmp_path / "b.hipfb", broken))
        assert words in code.unknown[0]


def _elf(raw: bytes, name: str = ".hip_fatbin") -> bytes:
    return bundles.shared_object({name: raw, ".text": b"x" * 300})


DAMAGED = {
    "cut off": _elf(bundles.bundle(BOTH))[:-40],
    "cut off early": _elf(bundles.bundle(BOTH))[:70],
    "no ELF header": _elf(bundles.bundle(BOTH))[16:],
    "zeros": bytes(2000),
    "empty": b"",
    "words": b"words",
    "a pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n",
    "of 32 bits": b"\x7fELF\x01\x01" + bytes(60),
    "a section of other bytes": _elf(b"\x99" * 900),
    "a cut-off bundle": _elf(bundles.bundle(BOTH)[:200]),
    "a damaged table": _elf(b"__CLANG_OFFLOAD_BUNDLE__" + b"\xff" * 64),
    "a bundle that does not unpack": _elf(b"CCOB\3\0\1\0" + struct.pack("<QQ", 99, 99) + bytes(75)),
    "a damaged fat binary": _elf(b"\x50\xed\x55\xba\1\0\x10\0" + bytes(80), ".nv_fatbin"),
    "not linked": _elf(b"x" * 50, ".llvm.offloading"),
    "no names": _elf(b"x" * 50)[:60] + b"\1\0\xff\0" + _elf(b"x" * 50)[64:],
}  # fmt: skip
SOUND = {
    "no GPU code": bundles.shared_object({".text": b"x" * 300, ".rodata": b"CCOB\3\0\1\0 words"}),
    "an empty section": bundles.shared_object({".hip_fatbin": b""}),
    "a section of zeros": bundles.shared_object({".hip_fatbin": bytes(64)}),
    "a linker script": b"/* GNU ld script */\nGROUP ( libc.so.6 )\n",
    "a library of Windows": b"MZ\x90\0" + bytes(900),
    "a library of macOS": b"\xcf\xfa\xed\xfe" + bytes(900),
}


def _zipped(folder: Path, raw: bytes) -> str:
    with zipfile.ZipFile(folder / "a.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("pkg/a.so", raw)
    return str(folder / "a.whl")


@pytest.mark.parametrize("case", sorted(DAMAGED))
def test_damage_is_told_in_a_folder_and_in_a_zip(tmp_path, case):
    written(tmp_path / "site-packages/pkg/a.so", DAMAGED[case])
    for made in (scan(str(tmp_path / "site-packages")), scan(_zipped(tmp_path, DAMAGED[case]))):
        assert made.looked == 1
        told = [why for _, why in made.unread] + [w for code in made.codes for w in code.unknown]
        assert len(told) == 1 and told[0].strip(), made


@pytest.mark.parametrize("case", sorted(SOUND))
def test_what_is_sound_is_passed_over(tmp_path, case):
    written(tmp_path / "site-packages/pkg/a.so", SOUND[case])
    for made in (scan(str(tmp_path / "site-packages")), scan(_zipped(tmp_path, SOUND[case]))):
        assert (made.looked, made.unread, made.codes) == (1, [], [])


def test_a_member_whose_bytes_were_changed_is_told(tmp_path):
    path = Path(_zipped(tmp_path, bundles.shared_object({".text": os.urandom(4000)})))
    raw = bytearray(path.read_bytes())
    raw[2000] ^= 0xFF
    path.write_bytes(raw)
    ((name, why),) = scan(str(path)).unread
    assert name == "pkg/a.so" and "cannot be unpacked" in why


def test_section_headers_far_from_the_end_are_found_again(tmp_path):
    """patchelf moves them; what a stream has passed long ago is unpacked anew."""
    raw = _elf(b"\x99" * 900) + os.urandom(3 << 20)
    made = scan(_zipped(tmp_path, raw))
    assert made.codes[0].unknown == ("it does not begin with GPU code of a known format",)


SEEDS = [
    bundles.bundle(BOTH),
    bundles.compressed(bundles.bundle(BOTH), 1),
    bundles.compressed(bundles.bundle(BOTH), 2),
    bundles.compressed(bundles.TEXTS["bundle"], 3, frame()),
    bundles.fatbin((2, 80), (1, 80)),
    bundles.shared_object({".hip_fatbin": bundles.bundle(BOTH)}),
    bundles.code_object(0x41),
]
HUGE = st.sampled_from([0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 62, (1 << 63) - 1, (1 << 64) - 1])
EDIT = st.tuples(st.integers(0, 600), HUGE, st.sampled_from("BHIQ"))


@given(st.sampled_from(SEEDS), st.lists(EDIT, max_size=4), st.integers(0, 4000), st.booleans())
@example(SEEDS[0], [(24, (1 << 64) - 1, "Q")], 4000, True)
@example(SEEDS[5], [(40, (1 << 63) - 1, "Q"), (60, 0xFFFF, "H")], 4000, True)
def test_hostile_files_neither_crash_nor_fill_memory(tmp_path_factory, seed, edits, end, sure):
    raw = bytearray(seed)
    for at, value, form in edits:
        size = struct.calcsize(form)
        if at + size <= len(raw):
            struct.pack_into("<" + form, raw, at, value & ((1 << (8 * size)) - 1))
    cut = bytes(raw[:end])
    path = tmp_path_factory.getbasetemp() / "hostile.so"
    path.write_bytes(cut)
    tracemalloc.start()
    try:
        for part in found(cut, sure):
            assert all(map(str.isascii, part.targets))
        for code in scan(str(path)).codes:
            assert code.targets or code.unknown
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 32 << 20


@given(st.binary(max_size=3000), st.sampled_from([b"", b"CCOB\3\0\1\0", b"\x7fELF\2\1\1\x40"]))
def test_garbage_is_no_code(tmp_path_factory, raw, head):
    path = tmp_path_factory.getbasetemp() / "garbage.co"
    path.write_bytes(head + raw)
    for code in scan(str(path)).codes:
        assert code.unknown or code.targets


@given(st.binary(max_size=2000))
def test_zstd_of_garbage_is_refused(raw):
    try:
        made = zstd.prefix(zstd.MAGIC + raw, 4096)
    except zstd.Malformed:
        return
    assert len(made) <= 4096


@given(st.integers(4, 700), st.integers(0, 255))
def test_zstd_that_was_changed_gives_an_answer_or_is_refused(at, value):
    raw = bytearray(frame("letters-3"))
    raw[at] = value
    with contextlib.suppress(zstd.Malformed):
        assert len(zstd.prefix(bytes(raw), 5000)) <= 5000


@pytest.mark.parametrize(
    ("target", "gpu", "runs"),
    [
        ("gfx1100", "gfx1100", True),
        ("gfx1100", "gfx1101", False),
        ("gfx11-generic", "gfx1103", True),
        ("gfx11-generic", "gfx1200", False),
        ("gfx9-4-generic", "gfx942", True),
        ("gfx90a", "gfx90a:sramecc+:xnack-", True),
        ("gfx90a:xnack+", "gfx90a:sramecc+:xnack-", False),
        ("gfx90a:xnack+", "gfx90a", None),
        ("gfx110x", "gfx1102", True),
        ("spirv", "gfx1151", True),
        ("sm_80", "gfx1100", False),
    ],
)
def test_what_runs_on_what(target, gpu, runs):
    assert targets.runs_on(target, gpu) is runs


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("gfx90a68.db.txt", "gfx90a"),
        ("gfx1030_36.HIP.fdb.txt", "gfx1030"),
        ("gfx942130.kdb", "gfx942"),
        ("TensileLibrary_Type_HH_Contraction_l_Ailk_Bjlk_Cijk_Dijk_gfx1100.co", "gfx1100"),
        ("amd-gfx110x/flash/attn_fwd.aks2", "gfx110x"),
        ("gfx11-generic.co", "gfx11-generic"),
        ("miopen.db", None),
    ],
)
def test_targets_in_names(name, target):
    assert targets.named(name) == target


def test_overrides_stay_within_a_generation():
    assert targets.nearest("gfx1103", ["gfx1100", "gfx1102", "gfx1200"]) == "gfx1100"
    assert targets.nearest("gfx1151", ["gfx1100"]) is None
    assert targets.nearest("gfx90c", ["gfx900", "gfx906"]) is None
    assert targets.version("gfx1100") == "11.0.0"
    assert targets.version("gfx90a") == "9.0.10"


def test_databases_by_library():
    made = databases.group(
        [
            ("torch/lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat", "torch"),
            ("torch/lib/rocblas/library/Kernels.so-000-gfx90a.hsaco", "torch"),
            ("torch/lib/hipblaslt/library/TensileLibrary_gfx942.co", "torch"),
            ("torch/share/miopen/db/gfx1030_36.HIP.fdb.txt", "torch"),
            ("torch/lib/rocblas/library/TensileManifest.txt", "torch"),
        ]
    )
    assert [(one.library, one.targets, one.files) for one in made] == [
        ("MIOpen", ("gfx1030",), 1),
        ("hipBLASLt", ("gfx942",), 1),
        ("rocBLAS", ("gfx1100", "gfx90a"), 2),
    ]


def test_sections_that_are_not_in_the_file_are_cut_off(tmp_path):
    raw = bytearray(bundles.shared_object({".hip_fatbin": bundles.bundle(BOTH)}))
    (table,) = struct.unpack_from("<Q", raw, 40)
    struct.pack_into("<Q", raw, table + 64 + 32, 1 << 40)
    code = only(written(tmp_path / "a.so", bytes(raw)))
    assert "the section .hip_fatbin is cut off" in code.unknown
    assert code.targets == {"gfx90a": 1, "gfx1100": 1}


def test_elf_refuses_what_is_not_one():
    for raw in (b"", b"\x7fELF", b"\x7fELF\x01\x01".ljust(64, b"\0"), b"MZ".ljust(64, b"\0")):
        with pytest.raises(elf.Malformed):
            elf.machine(raw)
