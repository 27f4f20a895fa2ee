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
CHILD = (
    "Traceback (most recent call last):\n"
    '  File "/usr/lib/python3.11/multiprocessing/process.py", line 314, in _bootstrap\n'
    '    self.run()\n  File "work.py", line 3, in work\n    x = y\n'
)

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
    "Triton's launcher does not build": (
        "/tmp/tmpab12/main.c:4:10: fatal error: Python.h: No such file or directory\n",
        ("cpp_hip", None, 1),
    ),
    "the compiler that Triton called": (
        TRACE + "subprocess.CalledProcessError: Command '['/usr/bin/gcc', '/tmp/tmpx1/hip_utils.c', "
        "'-O3', '-shared']' returned non-zero exit status 1.\n",
        ("cpp_hip", None, 4),
    ),
    "sizes alone": (
        "> \tsize mismatch for head.bias: copying a param with shape torch.Size([80]) from checkpoint\n",
        ("python", None, 1),
    ),
    "libstdc++ too old for torch": (
        "ImportError: /lib64/libstdc++.so.6: version `GLIBCXX_3.4.26' not found (required by "
        "/v/torch/lib/libtorch_python.so)\n",
        ("cpp_hip", None, 1),
    ),
    "libstdc++ too old for a package": (
        "ImportError: /lib64/libstdc++.so.6: version `GLIBCXX_3.4.26' not found (required by "
        "/v/_tok.cpython-312-x86_64-linux-gnu.so)\n",
        ("python", None, 1),
    ),
    "NumPy's API": (
        "RuntimeError: module compiled against API version 0xb but this version of numpy is 0xa\n"
        + TRACE + "ImportError: numpy.core.multiarray failed to import\n",
        ("python", None, 1),
    ),
    "a gradient that is none": (
        "\"RuntimeError: Function 'PowBackward0' returned nan values in its 0th output\"\n",
        ("python", None, 1),
    ),
    "a card that another one holds": (
        "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable\n",
        ("primitive", None, 1),
    ),
    "quotes of a word processor": (
        "ERROR 10-15 08:32:29 [core.py:7] Traceback (most recent call last):\n"
        "ERROR 10-15 08:32:29 [core.py:7] File \u201c/v/vllm/core.py\u201d, line 7, in run\n",
        ("python", None, 2),
    ),
    "rich without its exception": (
        "\u2502 \u2771  144 \u2502   x = self.attn1(     \u2502\n", ("python", None, 1)
    ),
    "IPython without its exception": (
        "   1211 if not self.ok:\n-> 1212     raise Fault(\n", ("python", None, 2)
    ),
    "a plain Exception": ("Exception: please convert all of them first\n", ("python", None, 1)),
    "a level without a colon": (
        "14:54:25-443784 ERROR    Install: pip: install --upgrade torch\n", ("python", None, 1)
    ),
    "a worker that was killed": (
        "RuntimeError: DataLoader worker (pid 22) is killed by signal: Killed.\n",
        ("primitive", None, 1),
    ),
    "an assertion of torch in short": (
        TRACE + "RuntimeError: r ASSERT FAILED at /pytorch/aten/src/ATen/core/jit_type.h:142, please "
        "report a bug to PyTorch. (expect at jit_type.h:142)\n",
        ("cpp_hip", None, 4),
    ),
    "nvidia-smi without a card": (
        "Unable to determine the device handle for GPU0000:03:00.0: Unknown Error\n"
        "[  +0.1] pcieport 0000:00:03.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer\n",
        ("primitive", None, 1),
    ),
    "a launcher after the traceback of its process": (
        TRACE + "ValueError: 32001 rows\n"
        "E1130 23:58:55.007000 2417 torch/distributed/elastic/multiprocessing/api.py:1002] failed "
        "(exitcode: 1) local_rank: 1 (pid: 2497) of binary: /v/bin/python\n"
        'Traceback (most recent call last):\n  File "/v/torch/distributed/run.py", line 9, in main\n'
        "    run(args)\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        "====\nfit.py FAILED\n",
        ("python", None, 4),
    ),
    "a parent after the traceback of its child": (
        "Process SpawnProcess-2:\n" + CHILD + "KeyError: 'labels'\n" + TRACE
        + "RuntimeError: a worker ended with [1]\n",
        ("python", None, 7),
    ),
    "a child after the traceback of its parent": (
        TRACE + "ValueError: too many values\nProcess SpawnProcess-2:\n" + CHILD + "EOFError\n",
        ("python", None, 4),
    ),
    "what __del__ raised afterwards": (
        TRACE + "ValueError: too many values\nException ignored in: <function E.__del__ at 0x7f>\n"
        + TRACE + "AttributeError: 'E' object has no attribute 'o'\n",
        ("python", None, 4),
    ),
    "a stack of the kernel": (
        "[    3.008272]  amdgpu_ttm_fini+0x78/0x130 [amdgpu]\n", ("primitive", None, 1)
    ),
    "a journal in a frame": (
        "\u2502Feb 17 18:01:24 box kernel: [   15.1] [drm:uvd_v4_2_start [amdgpu]] *ERROR* UVD not "
        "responding, giving up!!!\n",
        ("primitive", None, 1),
    ),
    "a container without its driver": (
        "ERROR: The NVIDIA Driver is present, but CUDA failed to initialize.  GPU functionality "
        "will not be available.\n   [[ System not yet initialized (error 802) ]]\n",
        ("primitive", None, 1),
    ),
    "a traceback cut at its head": (
        "loading\n[rank0]: Traceback (most recent call last):\n[rank0]:   File \"/scratch/pro",
        ("python", None, 2),
    ),
    "the fault handler of the runtime": (
        "   #2 0x7f2 abort (libc.so.6 + 0x2557a)\n   #3 0x7f3 "
        "_ZN4rocr4core7Runtime14VMFaultHandlerElPv (libhsa-runtime64.so + 0x8d33f)\n",
        ("primitive", None, 2),
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
    "calls that HIP tells": "  hip-copy pid:187 tid:3:Copy engine(dev:1) cannot see both host and "
    "device pointers - forcing copy\n:3:hip_graph.cpp :866 : 88 us: hipGetLastError ( ) failed before\n",
    "a cut traceback that Python went on after": "epoch 1 loss 0.5 Exception ignored in: <function "
    'L.__del__ at 0x7f>\nTraceback (most recent call last):\n  File "/v/torch/utils/d',
    "a warning of a library": "UserWarning: hipBLASLt: the cache cannot be written\n",
    "a bus that mends itself": "pcieport 0000:00:03.0: AER: Corrected error received: 0000:00:03.0\n"
    "pcieport 0000:00:03.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer\n",
    "NumPy's warning": "A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.1.0\n"
    "epoch 1 loss 0.5\nepoch 2 loss 0.4\n",
    "a logged error it went on after": "2024-01-01 00:00:00 ERROR    upload failed\n"
    + "".join(f"epoch {n} loss 0.{n}\n" for n in range(4)),
    "loading": "Loading checkpoint shards: 100%|####| 4/4 [00:00<00:00, 10.01it/s]\n",
}  # fmt: skip


@pytest.mark.parametrize("name", CALM)
def test_what_looks_bad_and_is_not(told, name):
    one = told(CALM[name])
    assert not one.failed


def test_labels_of_logs_that_are_not_kept():
    known = {one.id for one in families() if one.known}
    seen: set[str] = set()
    for file in (
        "fourth.toml",
        "fifth.toml",
        "sixth.toml",
        "seventh.toml",
        "eighth.toml",
        "ninth.toml",
        "tenth.toml",
        "eleventh.toml",
        "twelfth.toml",
    ):
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
