"""A lock names each change with its grade, and is silent when nothing changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

import reefwatch
from reefwatch.api import judging, lock
from reefwatch.core.errors import UnreadableRecord, UsageError
from reefwatch.core.fact import Evidence
from reefwatch.core.finding import Verdict
from reefwatch.core.record import Record
from reefwatch.core.report import ExitPolicy, Report, exit_code
from reefwatch.data import table
from reefwatch.gather.machine import computing, mapped
from reefwatch.gather.machine.digests import Digests, mark
from reefwatch.judge import drifts
from reefwatch.store import digests as kept
from reefwatch.store import lock as store
from tests.machine.locked import Machine

CODE = {"results": "MACH211", "precision": "MACH212", "speed": "MACH213", "nothing": "MACH214"}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def told(report: Report) -> dict[str, list[str]]:
    """Code -> what its findings are about."""
    return {
        outcome.code: [name for finding in outcome.findings for name in finding.names]
        for outcome in report.outcomes
        if outcome.findings
    }


def test_no_change_no_finding(machine, tmp_path):
    path = tmp_path / "a.lock"
    lock.lock(path, machine.freeze())
    report = lock.check(path, frozen=machine.freeze())
    assert told(report) == {}
    assert {outcome.verdict for outcome in report.outcomes} == {Verdict.HELD}
    assert exit_code(report, ExitPolicy(require_proof=True)) == 0
    assert report.last_line() == "4 held, 0 broken, 0 unproven"


def put(path: str, text: str, site: bool = False) -> Callable[[Machine], None]:
    return lambda m: m.put(path, text, m.site if site else None)


def variable(name: str, value: str) -> Callable[[Machine], None]:
    return lambda m: m.environ.update({name: value})


def flag(name: str, value: object) -> Callable[[Machine], None]:
    return lambda m: m.flags.update({name: value})


LIB = "torch/lib/"
CHANGES: dict[str, tuple[Callable[[Machine], None], str, str]] = {
    "kernel": (put("proc/sys/kernel/osrelease", "6.11.0\n"), "speed", "system.kernel"),
    "os": (
        put("etc/os-release", 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 26.04"\n'),
        "nothing",
        "system.os",
    ),
    "driver": (put("sys/module/amdgpu/version", "6.16.99\n"), "results", "system.driver"),
    "cpu": (
        put("proc/cpuinfo", "processor : 0\nmodel name : CPU two\nflags : avx2\n"),
        "results",
        "system.cpu",
    ),
    "firmware": (
        put("sys/class/drm/card0/device/fw_version/mec_fw_version", "0x69\n"),
        "results",
        "firmware.0.mec",
    ),
    "firmware of power": (
        put("sys/class/drm/card0/device/fw_version/smc_fw_version", "0x1\n"),
        "speed",
        "firmware.0.smc",
    ),
    "memory of the card": (
        put("sys/class/drm/card0/device/mem_info_vram_total", "8589934592\n"),
        "speed",
        "gpu.0.vram",
    ),
    "rocm": (put("opt/rocm/.info/version", "7.2.1\n"), "results", "rocm./opt/rocm"),
    "system library": (
        put("opt/rocm/lib/librocblas.so.5", "other"),
        "results",
        "libraries./opt/rocm/lib/librocblas.so.5",
    ),
    "system database": (
        put("opt/rocm/lib/rocblas/library/Kernels_gfx1100.hsaco", "k"),
        "results",
        "databases./opt/rocm/lib/rocblas/library",
    ),
    "torch": (
        lambda m: m.wheel("torch", "2.13.0+cpu", "cp311-cp311-manylinux_2_28_x86_64"),
        "results",
        "packages.torch",
    ),
    "wheel tag": (
        lambda m: m.wheel("torch", "2.13.0+rocm7.2", "cp311-cp311-linux_x86_64"),
        "results",
        "tags.torch",
    ),
    "another package": (
        lambda m: m.wheel("tokenizers", "0.21", "cp39-abi3-manylinux_2_17_x86_64"),
        "results",
        "packages.tokenizers",
    ),
    "new package": (lambda m: m.wheel("flash_attn", "2.8.3"), "results", "packages.flash-attn"),
    "harmless package": (lambda m: m.wheel("rich", "14.0.0"), "nothing", "packages.rich"),
    "commit of triton": (
        lambda m: m.wheel("triton-rocm", "3.7.1+git9999999", "cp311-cp311-linux_x86_64"),
        "results",
        "commits.triton-rocm",
    ),
    "library": (
        put(LIB + "libtorch_hip.so", "HIP", True),
        "results",
        "libraries.torch/lib/libtorch_hip.so",
    ),
    "rccl": (
        put(LIB + "librccl.so.1.0", "other", True),
        "results",
        "libraries.torch/lib/librccl.so.1.0",
    ),
    "profiler": (
        put(LIB + "libkineto.so", "other", True),
        "speed",
        "libraries.torch/lib/libkineto.so",
    ),
    "bitsandbytes": (
        put("bitsandbytes/libbitsandbytes_rocm72.so", "x", True),
        "results",
        "libraries.bitsandbytes/libbitsandbytes_rocm72.so",
    ),
    "triton": (
        put("triton/_C/libtriton.so", "x", True),
        "results",
        "libraries.triton/_C/libtriton.so",
    ),
    "tensile file": (
        put(LIB + "rocblas/library/TensileLibrary_gfx1100.dat", "TENSILE", True),
        "results",
        "databases.torch/lib/rocblas/library",
    ),
    "new tensile file": (
        put(LIB + "rocblas/library/TensileLibrary_gfx1101.co", "new", True),
        "results",
        "databases.torch/lib/rocblas/library",
    ),
    "hipblaslt": (
        put(LIB + "hipblaslt/library/extop_gfx1100.co", "LT", True),
        "results",
        "databases.torch/lib/hipblaslt/library",
    ),
    "miopen": (
        put("torch/share/miopen/db/gfx1030_36.HIP.fdb.txt", "FIND", True),
        "results",
        "databases.torch/share/miopen/db",
    ),
    "python source": (put("torch/nn.py", "x = 2\n", True), "results", "sources.torch"),
    "tf32": (flag("cuda.matmul.allow_tf32", True), "precision", "flags.cuda.matmul.allow_tf32"),
    "matmul precision": (
        flag("float32_matmul_precision", "high"),
        "precision",
        "flags.float32_matmul_precision",
    ),
    "benchmark": (flag("cudnn.benchmark", True), "results", "flags.cudnn.benchmark"),
    "threads": (flag("threads", 4), "results", "flags.threads"),
    "override": (
        variable("HSA_OVERRIDE_GFX_VERSION", "11.0.0"),
        "results",
        "environment.HSA_OVERRIDE_GFX_VERSION",
    ),
    "changed variable": (
        variable("TORCH_BLAS_PREFER_HIPBLASLT", "1"),
        "results",
        "environment.TORCH_BLAS_PREFER_HIPBLASLT",
    ),
    "variable gone": (
        lambda m: m.environ.pop("TORCH_BLAS_PREFER_HIPBLASLT"),
        "results",
        "environment.TORCH_BLAS_PREFER_HIPBLASLT",
    ),
    "unknown variable": (
        variable("TORCH_SOMETHING_NEW", "1"),
        "results",
        "environment.TORCH_SOMETHING_NEW",
    ),
    "precision variable": (
        variable("PYTORCH_MIOPEN_SUGGEST_NHWC", "1"),
        "precision",
        "environment.PYTORCH_MIOPEN_SUGGEST_NHWC",
    ),
    "speed variable": (
        variable("HSA_ENABLE_INTERRUPT", "0"),
        "speed",
        "environment.HSA_ENABLE_INTERRUPT",
    ),
    "debug variable": (variable("NCCL_DEBUG", "INFO"), "nothing", "environment.NCCL_DEBUG"),
}
ALSO = {"new package": {"tags.flash-attn"}, "commit of triton": {"packages.triton-rocm"}}
"""What such a change changes besides."""


@pytest.mark.parametrize("name", CHANGES)
def test_one_change_is_named_with_its_grade(machine, tmp_path, name):
    change, grade, what = CHANGES[name]
    before, after = tmp_path / "a.lock", tmp_path / "b.lock"
    lock.lock(before, machine.freeze())
    change(machine)
    frozen = machine.freeze()
    report = lock.check(before, frozen=frozen)
    expected = {CODE[grade]: [what]}
    found = told(report)
    for more in ALSO.get(name, ()):
        found = {code: [n for n in names if n != more] for code, names in found.items()}
    assert found == expected
    assert exit_code(report, ExitPolicy()) == (0 if grade == "nothing" else 3)
    lock.lock(after, frozen)
    assert told(lock.diff(before, after)) == told(report)
    assert told(lock.diff(after, before)) == told(report)
    assert told(lock.diff(after, after)) == {}


def test_every_section_was_changed():
    assert {what.partition(".")[0] for _, _, what in CHANGES.values()} == {*store.SECTIONS} - {
        "unknown"
    }


def test_a_card_that_is_gone(machine, tmp_path):
    lock.lock(tmp_path / "a.lock", machine.freeze())
    for path in (machine.root / "sys/class/drm").iterdir():
        path.rename(machine.root / path.name)
    report = lock.check(tmp_path / "a.lock", frozen=machine.freeze())
    assert {outcome.verdict for outcome in report.outcomes} - {Verdict.HELD}


def test_unknown_is_unproven_and_no_drift(machine, tmp_path):
    lock.lock(tmp_path / "a.lock", machine.freeze())
    (machine.root / "proc/sys/kernel/osrelease").unlink()
    report = lock.check(tmp_path / "a.lock", frozen=machine.freeze())
    assert told(report) == {}
    (speed,) = [outcome for outcome in report.outcomes if outcome.code == "MACH213"]
    assert speed.verdict is Verdict.UNPROVEN
    assert speed.reason.startswith("system.kernel: ")
    assert exit_code(report, ExitPolicy(require_proof=True)) == 4


def test_what_both_know_is_compared_whatever_unknown_says():
    there = {"packages": {"torch": "1.0"}, "unknown": {"packages": "x"}}
    here = {"packages": {"torch": "2.0"}}
    assert [str(drift) for drift in drifts.between(there, here)] == [
        "packages torch: 1.0 became 2.0"
    ]
    one_sided = {"packages": {}, "unknown": {"packages": "x"}}
    assert list(drifts.between(one_sided, here)) == []


def test_the_second_look_reads_no_file(machine):
    first, second, third = machine.freeze(), machine.freeze(), machine.freeze(paranoid=True)
    assert first.files["read"] > 10 and first.files["known"] == 0
    assert second.files == {"read": 0, "known": first.files["read"]}
    assert third.files == {"read": first.files["read"], "known": 0}
    assert first.sections == second.sections == third.sections


def test_only_paranoid_sees_through_a_kept_time(machine):
    first = machine.freeze()
    path = machine.site / "torch/lib/libtorch_hip.so"
    status = path.stat()
    with path.open("r+") as file:  # the same inode
        file.write("HIP")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert machine.freeze().sections == first.sections
    assert machine.freeze(paranoid=True).sections != first.sections


def test_a_file_that_was_replaced_is_read_again(machine):
    machine.freeze()
    path = machine.site / "torch/lib/libtorch_hip.so"
    path.unlink()
    path.write_text("hip")
    assert machine.freeze().files["read"] == 1


def test_a_damaged_cache_is_no_cache(machine):
    first = machine.freeze()
    for damage in ("{", "[]", '{"a": 1}'):
        kept.place().write_text(damage)
        again = machine.freeze()
        assert again.files["read"] == first.files["read"]
        assert again.sections == first.sections
    path = str(machine.site / "torch/nn.py")
    digests = Digests({path: ["not", "a", "mark"]})
    assert str(digests.of(path)).startswith("sha256:") and digests.read == 1


def test_the_file_is_stable_and_made_for_diffs(machine, tmp_path):
    sections = machine.freeze().sections
    text = store.text(sections, "2026-11-30", "reefwatch")
    turned = {k: dict(reversed(v.items())) for k, v in reversed(sections.items())}
    assert store.text(turned, "2026-11-30", "reefwatch") == text
    path = tmp_path / "a.lock"
    store.write(path, text)
    assert store.read(path) == sections
    machine.put("torch/nn.py", "x = 3\n", machine.site)
    other = store.text(machine.freeze().sections, "2026-11-30", "reefwatch")
    changed = set(text.splitlines()) ^ set(other.splitlines())
    assert len(changed) == 2 and all(line.startswith("torch = ") for line in changed)
    assert 'torch = "a1b2c3d4e5f6"' in text and 'triton-rocm = "0abc123"' in text
    assert "NOISE" not in text


def test_secrets_and_home_stay_out(machine):
    machine.environ |= {"TORCH_HUB_TOKEN": "s3cret", "TRITON_CACHE_DIR": "/home/ada/cache"}
    environment = machine.freeze().sections["environment"]
    assert environment["TRITON_CACHE_DIR"] == "~/cache"
    assert "TORCH_HUB_TOKEN" not in environment


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "No such file"),
        ("", "names no schema"),
        ("schema = 1\nsystem = 3", "system is no table"),
        ("schema = 99", "newer version"),
        ("schema = true", "names no schema"),
        ("schema = 0", "names no schema"),
        ("schema = 1\n[[later]]\nx = 1", "later is no table"),
        ("schema = 1\nlater = 3", "later is no table"),
        ("= =", "is no lock"),
        ("\x00", "is no lock"),
    ],
)
def test_what_is_no_lock(tmp_path, text, words):
    path = tmp_path / "a.lock"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UnreadableRecord, match=words):
        lock.check(path)


@pytest.mark.parametrize(
    "text",
    ["", "import torch\n", "schema = 1\n", '{"a": 1}', "\xff\xfe", "version = 1\n[[package]]\n"],
)
def test_a_file_that_is_no_lock_is_not_written_over(machine, tmp_path, text):
    path = tmp_path / "train.py"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(UsageError, match="is no lock"):
        lock.lock(path, machine.freeze())
    assert path.read_text(encoding="latin-1") == text
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


def test_what_is_no_file_is_neither_read_nor_replaced(machine, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in (tmp_path / "pipe", "/dev/null", tmp_path / "folder"):
        (tmp_path / "folder").mkdir(exist_ok=True)
        with pytest.raises(UsageError):
            lock.lock(name, machine.freeze())
        with pytest.raises(UnreadableRecord):
            lock.check(name, frozen=machine.freeze())


@pytest.mark.parametrize("damage", ["conflict", "crlf", "bom", "no comment"])
def test_a_lock_that_somebody_edited_is_written_anew(machine, tmp_path, damage):
    path, link = tmp_path / "a.lock", tmp_path / "link.lock"
    lock.lock(path, machine.freeze())
    made = path.read_bytes()
    edited = {
        "conflict": made.replace(b"[gpu]", b"<<<<<<< HEAD\n[gpu]\n=======\n>>>>>>> other"),
        "crlf": made.replace(b"\n", b"\r\n"),
        "bom": b"\xef\xbb\xbf" + made,
        "no comment": made.split(b"\n", 1)[1],
    }[damage]
    path.write_bytes(edited)
    if damage == "conflict":
        with pytest.raises(UnreadableRecord, match="is no lock"):
            lock.check(path, frozen=machine.freeze())
    else:
        assert told(lock.check(path, frozen=machine.freeze())) == {}
    link.symlink_to(path)
    lock.lock(link, machine.freeze())
    assert path.read_bytes() == made and link.is_symlink()


def test_a_lock_of_a_newer_version_is_not_written_over(machine, tmp_path):
    path = tmp_path / "a.lock"
    lock.lock(path, machine.freeze())
    newer = path.read_text().replace("schema = 1", "schema = 2")
    path.write_text(newer)
    with pytest.raises(UsageError, match="newer version"):
        lock.lock(path, machine.freeze())
    assert path.read_text() == newer


def test_variables_of_a_program_are_not_held(machine):
    """As docs/lock.md says: by the table, and by how the names of what computes begin."""
    first = machine.freeze().sections
    machine.environ["FOO"] = "1"
    assert machine.freeze().sections == first


def test_mapped_files(tmp_path):
    library = tmp_path / "lib.so"
    library.write_text("a")
    status = library.stat()
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    row = "7f00-7f01 r-xp 0000 " + device + " {inode} {path}{end}\n"
    same = row.format(inode=status.st_ino, path=library, end="")
    marks = {str(library): [*mark(status), "sha256:"]}
    paths = [str(library), str(tmp_path / "unused.so")]
    assert mapped.replaced(same, marks, paths) == {"looked": 1, "replaced": []}
    gone = row.format(inode=status.st_ino, path=library, end=" (deleted)")
    assert "deleted" in mapped.replaced(gone, marks, paths)["replaced"][0]["why"]
    other = row.format(inode=status.st_ino + 1, path=library, end="")
    assert "another file" in mapped.replaced(other, marks, paths)["replaced"][0]["why"]
    aside = row.format(inode=status.st_ino, path=tmp_path / "~ib.so", end="")
    other_file = tmp_path / "other.so"
    library.rename(tmp_path / "~ib.so")
    other_file.write_text("a")
    other_file.rename(library)
    assert "another file" in mapped.replaced(aside, marks, paths)["replaced"][0]["why"]
    (tmp_path / "~ib.so").rename(library)
    library.write_text("bb")
    assert "written to" in mapped.replaced(same, marks, paths)["replaced"][0]["why"]
    library.unlink()
    assert "any more" in mapped.replaced(same, marks, paths)["replaced"][0]["why"]


def test_grades_of_what_no_table_names():
    assert drifts.grade("environment", "LD_PRELOAD") == "results"
    assert drifts.grade("something", "new") == "results"
    assert drifts.grade("packages", "pytest-xdist") == "nothing"
    for harmless in ("certifi", "urllib3", "requests", "idna", "types-psutil", "ipython-genutils"):
        assert drifts.grade("packages", harmless) == drifts.grade("tags", harmless) == "nothing"
    # tokens, templates, configurations and arrays go through these; a name that no list knows may
    for other in ("tokenizers", "jinja2", "pyyaml", "einops", "requestsx", "scipy", "timm", "ours"):
        assert drifts.grade("packages", other) == "results"


def test_nothing_that_computes_is_called_harmless():
    """No list may hold what the lock itself looks into."""
    names = [name for kind in table("distributions.toml")["harmless"].values() for name in kind]
    assert len(names) == len(set(names)) > 100
    for name in names:
        assert not computing.is_computing(name.rstrip("*")), name
    for name in ("torch", "torchvision", "triton-rocm", "rocm-sdk-core", "flash-attn", "numpy",
                 "nvidia-cudnn-cu12", "amd-torch-device-gfx1100", "transformers"):  # fmt: skip
        assert computing.is_computing(name) and drifts.grade("packages", name) == "results"


RUN = """\
import mmap, os, sys
file = open(sys.argv[1], "rb")
held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
"""


@pytest.mark.serial
def test_run_locked(tmp_path):
    """A run under the lock of this very environment; then a library of it changes meanwhile."""
    site = tmp_path / "extra"
    (site / "bitsandbytes").mkdir(parents=True)
    library = site / "bitsandbytes" / "libbitsandbytes_rocm72.so"
    library.write_bytes(b"x" * 5000)
    info = site / "bitsandbytes-0.50.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bitsandbytes\nVersion: 0.50.2\n")
    (info / "RECORD").write_text("bitsandbytes/libbitsandbytes_rocm72.so,,\n")
    (tmp_path / "use.py").write_text(RUN)
    (tmp_path / "replace.py").write_text(
        RUN + "os.rename(sys.argv[1], sys.argv[1] + '.old')\nopen(sys.argv[1], 'wb').write(b'y')\n"
    )
    code = (
        "import sys; from reefwatch.api import lock; "
        "lock._sites = lambda facts: [sys.argv[1]]; "
        "from reefwatch.shell import cli; sys.exit(cli.main(sys.argv[2:]))"
    )

    def call(*words: str) -> int:
        done = subprocess.run(
            [sys.executable, "-c", code, str(site), *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=250,
            env={**os.environ, "PYTHONPATH": os.path.dirname(reefwatch.__path__[0])},
        )
        assert "fault of reefwatch" not in done.stderr, done.stderr
        return done.returncode

    quiet = ("run", "--quiet", "--out", "out")
    assert call("lock") == 0
    made = (tmp_path / "reefwatch.lock").read_bytes()
    assert call("lock") == 2  # one that is there is not written over in silence
    assert (tmp_path / "reefwatch.lock").read_bytes() == made
    assert call("lock", "--update") == 0
    assert call("lock", "--check", "--update") == 2
    (tmp_path / "frozen.toml").write_bytes(made)
    assert call("lock", "--check") == 0
    assert call(*quiet, "--locked", "frozen.toml", "use.py", str(library)) == 0
    assert call(*quiet, "--locked", "use.py", str(library)) == 0
    assert call(*quiet, "--locked", "reefwatch.lock", "replace.py", str(library)) == 3
    report = json.loads((tmp_path / "out/report.json").read_text())
    broken = [one for one in report["outcomes"] if one["verdict"] == "broken"]
    assert [one["code"] for one in broken] == ["MACH215"]
    assert broken[0]["findings"][0]["message"].startswith(str(library))
    assert call(*quiet, "--locked=reefwatch.lock", "use.py", str(library)) == 3
    assert call("lock", "--check") == 3
    assert call(*quiet, "--locked=gone.lock", "use.py") == 2


def test_a_lock_counts_in_a_process_that_only_started_others():
    """Its children were not held against the lock; what was found of the parent is not lost."""
    same = lock.drift_facts({"packages": {"torch": "1"}}, {"packages": {"torch": "2"}}, "a", "b")
    watched = Evidence("watch.children", {"spawned": 1, "watched": 1})
    parent = Record({"rank": 0}, {**same, "watch.children": watched})
    child = Record({"rank": 0, "group": "spawned-1"}, {"run.steps": Evidence("run.steps", {})})
    report = judging.judged("report", [parent, child])
    assert told(report)["MACH211"] == ["packages.torch"]
    assert "MACH001" not in {outcome.code for outcome in report.outcomes}
    alone = judging.judged("report", [child])
    assert not [one for one in alone.outcomes if one.contract == "machine"]


def test_what_cannot_be_frozen_is_unproven(machine, tmp_path, monkeypatch):
    lock.lock(tmp_path / "a.lock", machine.freeze())

    def fails(**_: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(lock, "here", fails)
    under = lock.Locked(tmp_path / "a.lock")
    under.look()
    report = judging.judged("run", [Record({}, {**under.begun(), **under.ended()})])
    outcomes = [one for one in report.outcomes if one.contract == "machine"]
    assert {one.verdict for one in outcomes} == {Verdict.UNPROVEN} and len(outcomes) == 5
    assert "RuntimeError: no" in outcomes[0].reason


def test_a_login_in_the_value_of_a_variable_is_not_locked(monkeypatch):
    from reefwatch.api import lock

    monkeypatch.setenv("NCCL_NET", "https://bob:pw999@host/x")
    monkeypatch.setenv("MIOPEN_USER_DB_PATH", "/home/dave/db")
    kept = lock.here(flags=False, sites=[]).sections["environment"]
    assert "pw999" not in str(kept) and "dave" not in str(kept)
    assert set(kept) >= {"NCCL_NET", "MIOPEN_USER_DB_PATH"}
