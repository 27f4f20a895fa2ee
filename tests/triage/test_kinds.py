# ruff: noqa: E501 - the lines are as libraries print them
"""Kinds of lines that logs of other people have; the lines are ours, in the form of theirs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reefwatch.triage.catalogue import families
from reefwatch.triage.family import LAYERS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LABELS = Path(__file__).parents[1] / "data" / "triage"
TRACE = 'Traceback (most recent call last):\n  File "fit.py", line 9, in step\n    x = y\n'

KINDS = {
    "a compiler's back end gives up": (
        "fatal error: error in backend: Cannot select: 0x5: i32,ch = load<(load (s32))> 0x6\n"
        "PLEASE submit a bug report to https://github.com/llvm/llvm-project/issues/\n",
        ("cpp_hip", "llvm-isel-failure", 1),
    ),
    "only the frames of it": (
        " #7 0x00005 llvm::SelectionDAGISel::CannotYetSelect(llvm::SDNode*) (/x/lld+0x19)\n",
        ("cpp_hip", "llvm-isel-failure", 1),
    ),
    "the allocator of another framework": (
        "E stream_executor/rocm/rocm_driver.cc:9] failed to allocate 2.50G (2684354560 bytes) "
        "from device: hipError_t(1002)\n",
        ("cpp_hip", "hip-oom", 1),
    ),
    "a code of the runtime alone": (
        "error: 'hipErrorMemoryAllocation'(1002) at src/mem.cpp:5\n",
        ("cpp_hip", "hip-oom", 1),
    ),
    "a launcher's signal": (
        "[2024-01-02 03:04:05,678] [ERROR] [launch.py:434:sigkill_handler] ['python'] "
        "exits with return code = -9\n",
        ("primitive", None, 1),
    ),
    "the words of Go": (
        "Error: runner stopped\nstopped with error: signal: illegal instruction (core dumped)\n",
        ("cpp_hip", None, 2),
    ),
    "a minidump": ("Crash reason:  EXCEPTION_ACCESS_VIOLATION_READ\n", ("cpp_hip", None, 1)),
    "a job of a shell": (
        "./run.sh: line 3:    12 Aborted                 (core dumped) python3 a.py\n",
        ("cpp_hip", None, 1),
    ),
    "the exit code of a container": ("trainer-1 exited with code 139\n", ("cpp_hip", None, 1)),
    "a class in lower case": (
        "attributeError: module 'torch' has no attribute 'new'\n",
        ("python", None, 1),
    ),
    "a colon of CJK": ("RuntimeError\uff1a no such thing\n", ("python", None, 1)),
    "words that look like an end": (
        "RuntimeError: Expected to have finished reduction\n"
        "If you already have done the above, then report it\n",
        ("python", None, 1),
    ),
    "Triton by its older words": (
        "triton.code_gen.OutOfResources: out of resource: shared memoryRequired: 90112Hardware "
        "limit: 65536\n",
        ("cpp_hip", "triton-lds-limit", 1),
    ),
    "Triton in short": (
        "OutOfResources: shared memory, Required: 90112, Hardware limit: 65536\n",
        ("cpp_hip", "triton-lds-limit", 1),
    ),
    "emphasis in a build log": (
        "/var/lib/dkms/amdgpu/6.1-1/build/amd/a.c:20:9: **error: implicit declaration of f**\n",
        ("primitive", "dkms-build-failed", 1),
    ),
    "Inductor in a line of JSON": (
        "{'message': 'torch._inductor.exc.InductorError: SubprocException: in a subprocess'}\n",
        ("cpp_hip", None, 1),
    ),
    "a peer that cannot be reached": (
        "node1:1:2 [5] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 10.0.0.1<17943> "
        "failed : Software caused connection abort\n",
        ("cpp_hip", None, 1),
    ),
    "a device that the host has not": (
        'docker: Error response from daemon: error gathering device information while adding custom '
        'device "/dev/kfd": no such file or directory.\n',
        ("primitive", None, 1),
    ),
    "a warning before a traceback that is cut": (
        "WARNING:bitsandbytes.cextension:The installed version of bitsandbytes was compiled without "
        "GPU support.\n" + TRACE,
        ("python", None, 3),
    ),
    "a warning that tells why": (
        "UserWarning: CUDA initialization: Found no NVIDIA driver on your system\n" + TRACE,
        ("primitive", None, 1),
    ),
    "source lines in a frame of rich": (
        "│ ❱ 12 │   raise RuntimeError('HIP out of memory. Tried')  │\nKeyError: 'lr'\n",
        ("python", None, 2),
    ),
    "a warning in the short form of glog": (
        "[W socket.cpp:697] [c10d] The client socket has failed to connect to [me]:612\n"
        + TRACE + "KeyError: 'lr'\n",
        ("python", None, 5),
    ),
    "a mail that quotes": (
        "> Traceback (most recent call last):\n>   File \"a.py\", line 1, in f\n>     x\n> KeyError: 'a'\n",
        ("python", None, 4),
    ),
    "the program's own words": (
        "Loading\nERROR: the file has no header\n",
        ("python", None, 2),
    ),
    "a test that failed": (
        "FAILED tests/test_a.py::test_x - AssertionError: assert 1 == 2\n",
        ("python", None, 1),
    ),
    "a library's assertion": (
        "a.out: list.h:12: T& at(int): Assertion `i < n' failed.\n",
        ("cpp_hip", None, 1),
    ),
    "a loader of Windows": (
        "OSError: [WinError 127] The specified procedure could not be found\n",
        ("python", None, 1),
    ),
    "the kernel's own fault": (
        "[ 9.1] RIP: 0010:amdgpu_vm_update+0x12/0x40 [amdgpu]\n",
        ("primitive", None, 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_log(told, kind):
    log, (layer, family, line) = KINDS[kind]
    one = told(log)
    assert (one.layer, one.family, one.line_number) == (layer, family, line)


CALM = {
    "strides": "UserWarning: Grad strides do not match bucket view strides. This is not an error, "
    "but may impair performance.\ngrad.sizes() = [2, 1]\n",
    "overflow": "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 1024.0\n",
    "rich": "[09:41:37] WARNING  UserWarning: Error while loading the tokenizer's cache\n",
    "ollama": 'time=2024-06-06T13:15:48 level=WARN source=a.go:48 msg="amdgpu version file missing"\n',
    "tensorflow": "I tensorflow/core/common_runtime/gpu_fusion_pass.cc:5] ROCm Fusion is enabled.\n",
    "nccl": "node1:4:5 [0] graph/search.cc:765 NCCL WARN Could not find a path for pattern 4, "
    "falling back to simple order\n",
    "boot": "[ 1.2] amdgpu 0000:7b:00.0: amdgpu: RAS: optional ras ta ucode is not available\n",
    "an error it went on after": "ERROR: upload failed, trying again\n"
    + "".join(f"epoch {n} loss 0.{n}\n" for n in range(4)),
    "git in a folder without tags": "fatal: No names found, cannot describe anything.\n",
    "a handled one": TRACE + "KeyError: 'cache'\n"
    + "".join(f"epoch {n} loss 0.{n}\n" for n in range(4)),
    "an error, and a long way from there": "RuntimeError: HIP out of memory. Tried to allocate 2 GiB\n"
    + "".join(f"step {n} loss 0.{n}\n" for n in range(40)),
    "a heading": "## HIP error: invalid device function\n",
    "loading": "Loading checkpoint shards: 100%|####| 4/4 [00:00<00:00, 10.01it/s]\n",
}  # fmt: skip


@pytest.mark.parametrize("name", CALM)
def test_what_looks_bad_and_is_not(told, name):
    one = told(CALM[name])
    assert not one.failed


def test_labels_of_logs_that_are_not_kept():
    known = {one.id for one in families() if one.known}
    seen: set[str] = set()
    for file in ("fourth.toml", "fifth.toml", "sixth.toml"):
        table = tomllib.loads((LABELS / file).read_text())
        first, logs = table["first_reading"], table["log"]
        failed = [log for log in logs if log["layer"]]
        assert (len(failed), len(logs) - len(failed)) == (first["logs"], first["healthy"])
        assert sum(bool(log["family"]) for log in logs) == first["known"]
        for log in logs:
            assert log["layer"] in (*LAYERS, "") and log["family"] in (*known, "")
            assert log["source"].startswith("https://") and "lines" not in log
            assert log["id"] not in seen
            seen.add(log["id"])
