"""Which of many lines decides: earliest, cause before reporter, the machine's say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefwatch.show import triage as show
from reefwatch.triage.catalogue import families
from reefwatch.triage.decide import decide
from reefwatch.triage.family import LAYERS
from reefwatch.triage.machine import facts

TIMEOUT = (
    "[rank{rank}]:[E1107 22:{minute}:59.1 ProcessGroupNCCL.cpp:692] [Rank {rank}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE) ran for 600000 ms\n"
)
OOM = "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB.\n"
TRACE = 'Traceback (most recent call last):\n  File "train.py", line 9, in step\n    x = y\n'
FAULT = "Memory access fault by GPU node-1 (Agent handle: 0x5) on address 0x7f. Reason: Unknown.\n"
TIMED = "2024-11-07T22:{minute}:00 ERROR "


def test_a_timeout_is_not_the_cause_of_what_another_rank_ran_into(told):
    waiting = TIMEOUT.format(rank=0, minute="40")
    failed = TIMED.format(minute="10") + "worker\n" + TRACE + OOM
    one = told(waiting, failed)
    assert (one.family, one.layer, one.file, one.line_number) == ("hip-oom", "cpp_hip", "log1", 5)
    assert [o["family"] for o in one.also if o["what"] == "reporter"] == ["collective-timeout"]


def test_of_two_causes_the_earlier_by_the_clock(told):
    late = TIMED.format(minute="30") + "HIP error: invalid device function\n"
    early = TIMED.format(minute="05") + OOM
    assert told(late, early).family == "hip-oom"
    assert told(early, late).family == "hip-oom"
    undated = "HIP error: invalid device function\n"
    assert told(undated, OOM).family == "arch-not-in-wheel"  # by place, since no clock says more


def test_a_plain_exception_of_one_rank_outweighs_reporters_of_others(told):
    one = told(TIMEOUT.format(rank=1, minute="40"), TRACE + "KeyError: 'lr'\n")
    assert (one.layer, one.family, one.file) == ("python", None, "log1")
    assert one.cause == "KeyError: 'lr'"
    assert one.fix == "look at train.py:9, in step"


def test_the_users_own_frame_is_told_with_a_plain_layer_too(told):
    one = told(TRACE + "ModuleNotFoundError: No module named 'einops'\n")
    assert (one.layer, one.component) == ("python", "environment")
    assert one.fix.endswith("(look at train.py:9, in step)")
    assert [o for o in one.also if o["what"] == "nearest"] == []


def test_the_cause_of_a_chain_is_its_root(told):
    chain = (
        TRACE + "ZeroDivisionError: division by zero\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        + TRACE + "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised\n"
    )  # fmt: skip
    assert told(chain).cause.startswith("ZeroDivisionError")
    handled = (
        TRACE + "KeyError: 'a'\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        + TRACE + "ValueError: no such model\n"
    )  # fmt: skip
    assert told(handled).cause.startswith("ValueError")


def test_reporters_are_named_only_when_nothing_else_is_there(told):
    assert told(FAULT + "Aborted (core dumped)\n").family == "memory-access-fault"
    override = "$ HSA_OVERRIDE_GFX_VERSION=10.3.0 python a.py\n" + FAULT
    assert told(override).family == "wrong-gfx-override"
    ring = "[1.5] amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1\n"
    reset = "[2.5] amdgpu 0000:03:00.0: amdgpu: GPU reset(2) succeeded!\n"
    one = told(ring + reset)
    assert one.family == "gpu-hang-display-shared" and one.line_number == 1
    assert not told("[2.5] amdgpu 0000:03:00.0: amdgpu: GPU reset(2) succeeded!\n").family


def test_the_status_of_miopen_is_explained_by_the_lines_before(told):
    log = (
        "MIOpen(HIP): Error [BuildHip] HIPRTC status = HIPRTC_ERROR_COMPILATION (6), "
        "source file: a.cpp\n"
        "/tmp/comgr-1/include/a.hpp:83:23: error: not a valid operand.\n"
        + TRACE + "RuntimeError: miopenStatusUnknownError\n"
    )  # fmt: skip
    one = told(log)
    assert one.family == "miopen-jit-compile-failed"
    assert one.root_line.endswith("error: not a valid operand.") and one.line_number == 2


def test_source_lines_of_a_traceback_do_not_decide(told):
    log = (
        'Traceback (most recent call last):\n  File "a.py", line 1, in _lazy_init\n'
        '    raise AssertionError("Torch not compiled with CUDA enabled")\n'
        "AssertionError: Torch not compiled with CUDA enabled\n"
    )
    assert told(log).line_number == 4


OPS = "AssertionError: Torch not compiled with CUDA enabled"
LATER = TRACE + "KeyError: 'lr'\n"
QUOTED = {
    "a frame of a log that begins within a traceback": (
        '  File "/v/torch/cuda/__init__.py", line 403, in _lazy_init\n'
        '    raise AssertionError("Torch not compiled with CUDA enabled")\n'
        "KeyError: 'lr'\n"
    ),
    "a comment": (
        '[rank0]:   File "/v/lightning/distributed.py", line 55, in prepare\n'
        '[rank0]:     reducer.rebuild()  # avoids "INTERNAL ASSERT FAILED" with false\n'
        "[rank0]: RuntimeError: parameters that were not used in producing the loss\n"
    ),
    "an f-string": TRACE.replace("x = y", 'f"HIP out of memory. Tried to allocate {n} GiB"')
    + "KeyError: 'lr'\n",
    "a raise that was pasted alone": '    raise RuntimeError("HIP out of memory. Tried")\n' + LATER,
    "a listing of grep": "src/a.py:12:    raise RuntimeError('No HIP GPUs are available')\n"
    + LATER,
    "IPython's arrow": "--> 310     raise AssertionError('Torch not compiled with CUDA enabled')\n"
    + LATER,
    "code in C++": '  TORCH_CHECK(false, "HIP error: invalid device function");\n' + LATER,
    "a diff": '+        raise RuntimeError("HIP out of memory. Tried to allocate 2 GiB")\n' + LATER,
    "a compiler's margin": '   36 | #error "HIP error: invalid device function"\n' + LATER,
    "documentation": "See the FAQ: if you see HIP error: invalid device function, rebuild\n"
    + LATER,
    "a list of changes": "* fixes `HIP error: invalid device function` on gfx1101 (#12)\n" + LATER,
}


@pytest.mark.parametrize("case", QUOTED)
def test_what_is_only_quoted_decides_nothing(told, case):
    one = told(QUOTED[case])
    assert (one.layer, one.family, one.failed) == ("python", None, True)
    assert one.line_number == QUOTED[case].count("\n")
    assert not any(o.get("family") for o in one.also if o["what"] in ("other", "reporter"))


def test_a_quoted_line_alone_is_no_failure(told):
    for line in (
        '    raise AssertionError("Torch not compiled with CUDA enabled")',
        "logger.warning('HIP out of memory. Tried to allocate 2 GiB')",
        "Troubleshooting: if you see `HIP error: invalid device function`, use another wheel",
    ):
        one = told(line + "\nepoch 1 loss 0.5\n")
        assert (one.failed, one.family) == (False, None), line
    assert told("HIP out of memory. Tried to allocate 2 GiB, see the FAQ\n").family == "hip-oom"


NCCL = "{host}:12:13 [0] /src/rccl/transport/p2p.cc:237 NCCL WARN Cuda failure 'invalid argument'\n"


@pytest.mark.parametrize("host", ["node1", "UVOSLinux", "GPU"])
def test_a_traceback_that_other_lines_cut_is_a_failure(told, host):
    warn = NCCL.format(host=host)
    head, frame, code = TRACE.splitlines(keepends=True)
    for log in (
        head + frame + warn + code + "KeyError: 'lr'\n",
        head + warn * 9 + frame + code + warn * 9 + "KeyError: 'lr'\n",
    ):
        one = told(log)
        assert one.failed and any("KeyError" in str(o) for o in [one.plain()])
    cut = told(warn + head + frame)
    assert (cut.failed, cut.layer, cut.line_number) == (True, "cpp_hip", 1)
    assert told(head + frame).failed


def test_ranks_without_prefixes_that_speak_at_once(told):
    head, frame, code = TRACE.splitlines(keepends=True)
    log = head + head + frame + frame + code + code + "MyOwn: a\n" + "MyOwn: b\n"
    one = told(log)
    assert (one.layer, one.failed, one.cause) == ("python", True, "MyOwn: b")


def test_a_frame_of_hip_alone_is_no_sign_of_an_integrated_gpu(told):
    log = "Segmentation fault (core dumped)\n#0  0x7f in ?? () from /opt/rocm/lib/libamdhip64.so\n"
    assert (told(log).family, told(log).layer) == (None, "cpp_hip")
    assert told(log, machine={"archs": ["gfx1100"]}).family is None
    assert told(log, machine={"archs": ["gfx1036"]}).family == "igpu-unsupported"


def test_the_event_is_the_root_and_not_a_frame(told):
    stage = '  File "/v/triton/backends/amd/compiler.py", line 9, in make_ttgir\n    pm.run(mod)\n'
    end = "RuntimeError: PassManager::run failed\n"
    assert told(stage + end).root_line == end.strip()
    note = "note: Pipeline failed while executing [`Canonicalize` on 'tt.func' operation: @k]\n"
    assert told("error: Failures have been detected\n" + note + stage + end).line_number == 2
    bad = "loc(\"/v/a.py\":309:0): error: unsupported target: 'gfx906'\n"
    assert told(bad + stage + end).line_number == 1
    fault = "[aiter] import [module_moe] under /v/aiter/jit/module_moe.so\n" + FAULT
    assert told(fault).root_line == FAULT.strip()


LOADER = {
    "ImportError: /v/lib/libMIOpen.so.1: undefined symbol: _ZN2ck": "cpp_hip",
    "ImportError: /v/torch/lib/libtorch_cpu.so: undefined symbol: iJIT_NotifyEvent": "cpp_hip",
    "ImportError: /v/flash_attn_2_cuda.cpython-312-x86_64.so: undefined symbol: _ZN3c10": (
        "python"
    ),
    "OSError: libfoo.so.4: cannot open shared object file: No such file or directory": "python",
    "ninja: build stopped: subcommand failed.": "python",
    "subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.": (
        "python"
    ),
    "error: command '/opt/rocm/bin/hipcc' failed with exit code 1": "python",
    "a.hip:12:3: error: use of undeclared identifier 'x'": "python",
    "python[34]: segfault at 34 ip 00 sp 00 error 4 in libhsa-runtime64.so[45970,7f+117000]": (
        "primitive"
    ),
    "python[34]: segfault at 34 ip 00 sp 00 error 4 in libamdhip64.so[45970,7f+117000]": (
        "cpp_hip"
    ),
}


@pytest.mark.parametrize("line", LOADER)
def test_loader_and_build_errors_lie_where_the_catalogue_puts_them(told, line):
    assert told(line + "\n").layer == LOADER[line]


@pytest.mark.parametrize(
    ("line", "layer"),
    [
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (1x2 and 6x64)", "python"),
        ("ModuleNotFoundError: No module named 'einops'", "python"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.", "cpp_hip"),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "cpp_hip"),
        ("ncclUnhandledCudaError: Call to CUDA function failed.", "cpp_hip"),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "cpp_hip"),
        ("[9.1] NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus", "primitive"),
        ("RuntimeError: Found no NVIDIA driver on your system. Please check", "primitive"),
        ("[7.0] Out of memory: Killed process 47768 (python3)", "primitive"),
        ("RuntimeError: No CUDA GPUs are available", "primitive"),
        ("Segmentation fault (core dumped)", "cpp_hip"),
        ("ERROR: No matching distribution found for torch==9.9", "python"),
        ("all went well", "unknown"),
    ],
)
def test_the_layer_of_what_is_no_known_family(told, line, layer):
    one = told(line + "\n")
    assert one.layer == layer
    assert one.failed is (layer != "unknown")


def test_an_unknown_failure_names_the_nearest_and_what_to_collect(told):
    one = told("RuntimeError: HIP error: the kernel of hipBLASLt hangs\n")
    assert one.family is None and one.layer == "cpp_hip"
    assert any(o["what"] == "nearest" for o in one.also)
    assert any("AMD_SERIALIZE_KERNEL" in command for command in one.collect)


def test_a_warning_alone_is_named_and_is_no_failure(told):
    warn = "MIOpen(HIP): Warning [IsEnoughWorkspace] [EvaluateInvokers] workspace required: 1\n"
    one = told(warn)
    assert one.family == "miopen-workspace-warning" and not one.failed
    calm = told(warn + "epoch 1 loss 0.5\nepoch 2 loss 0.4\nsaved checkpoint a.pt\n")
    assert calm.family is None and not calm.failed
    assert [o["what"] for o in calm.also] == ["harmless"]


@pytest.mark.parametrize(
    "file",
    sorted((Path(__file__).parents[1] / "data/triage/healthy").glob("*.log")),
    ids=lambda f: f.stem,
)
def test_no_failure_is_claimed_of_a_run_that_ended_well(told, file):
    one = told(file.read_bytes().decode())
    assert not one.failed and one.family is None and one.layer == "unknown"


LOST = "cannot open shared object file: No such file or directory"
MILD = {
    "/v/torch/a.py:118: UserWarning: CUDA initialization: Found no NVIDIA driver": None,
    f"node1:1:1 [0] NCCL INFO NET/Plugin : dlerror=librccl-net.so: {LOST}": "rocm-lib-not-found",
    f"W tensorflow/dso_loader.cc:64] dlerror: libcudart.so.11.0: {LOST}": None,
    "UserWarning: no flash attention: No module named 'flash_attn'": None,
    "MIOpen(HIP): Warning [SearchImpl] Searching the best solution in the 9 dim space.": (
        "miopen-find-slow"
    ),
    "[4.2] amdgpu 0000:03:00.0: amdgpu: PCIE atomic ops is not supported": "pcie-atomics-missing",
}


@pytest.mark.parametrize("line", MILD)
def test_what_only_warns_claims_no_failure(told, line):
    alone = told(line + "\n")
    assert (alone.failed, alone.family) == (False, MILD[line])
    calm = told(line + "\n" + EPOCHS)
    assert (calm.failed, calm.layer, calm.family) == (False, "unknown", None)
    dead = told(line + "\n" + TRACE + "KeyError: 'lr'\n")
    assert (dead.failed, dead.cause) == (True, "KeyError: 'lr'")


def test_a_warning_that_comes_again_as_an_error_is_one(told):
    words = "libamdhip64.so.6: cannot open shared object file: No such file or directory\n"
    one = told("UserWarning: not imported: " + words + TRACE + "ImportError: " + words)
    assert (one.family, one.failed, one.line_number) == ("rocm-lib-not-found", True, 5)


EPOCHS = "".join(f"epoch {n} loss 0.{n}\n" for n in range(1, 9))
BNB = "Could not find the bitsandbytes ROCm binary at PosixPath('/v/libbitsandbytes_rocm71.so')\n"


def test_what_the_run_went_on_after_did_not_end_it(told):
    late = TRACE + "KeyError: 'lr'\n"
    assert told(BNB + late).family == "bnb-binary-missing"
    one = told(BNB + EPOCHS + late)
    assert (one.family, one.cause, one.line_number) == (None, "KeyError: 'lr'", 13)
    assert told(BNB + "epoch 1 loss 0.1\n" + late).family == "bnb-binary-missing"
    ended = told(BNB + EPOCHS + "training finished\n")
    assert not ended.failed and ended.family is None
    assert told(EPOCHS + BNB).family == "bnb-binary-missing"


def test_a_bar_that_is_drawn_again_is_no_going_on(told):
    log = OOM + " 12%|#2    | 12/100 [00:10<01:00, 1.2it/s]\n" + TRACE + "RuntimeError: stopped\n"
    assert told(log).family == "hip-oom"


def test_other_ranks_go_on_while_one_has_failed(told):
    log = f"[rank1]: {OOM}" + "".join(f"[rank0]: {line}\n" for line in EPOCHS.splitlines())
    assert told(log + TIMEOUT.format(rank=0, minute="40")).family == "hip-oom"


MES = (
    "MES feature version: 1, firmware version: 0x00000083\n"
    "HW Exception by GPU node-1 (Agent handle: 0x6) reason :GPU Hang\n"
)


def test_the_machine_rules_out_what_cannot_be(told):
    assert told(MES).family == "bad-mes-firmware"
    one = told(MES, machine=facts({"facts": {"machine.cards": {"value": [{"gfx": "gfx1100"}]}}}))
    assert one.family == "hw-exception-gpu-hang"
    (out,) = [o for o in one.also if o["what"] == "ruled out"]
    assert out["family"] == "bad-mes-firmware" and "gfx1100" in out["why"]
    assert told(MES, machine=facts({"gfx": "gfx1151"})).family == "bad-mes-firmware"


def test_a_log_that_names_its_own_chip_outranks_this_machine(told):
    log = "Name: gfx1151\n" + MES.replace("reason", "on gfx1151 reason")
    assert told(log, machine={"archs": ["gfx1100"]}).family == "bad-mes-firmware"


def test_facts_that_say_nothing_rule_nothing_out(told):
    assert facts({}) == {} and facts([1, "x", None]) == {}
    assert facts({"gpu_count": 1, "wsl": True}) == {"gpus": 1, "wsl": True}
    listed = {"machine.gpus": {"value": [{"gfx": "gfx1151"}]}, "built": ["gfx900"]}
    assert facts(listed) == {"archs": ["gfx1151"], "gpus": 1, "vendor": "amd"}
    ipc = "NCCL WARN hipIpcGetMemHandle failed : invalid argument\n"
    assert told(ipc, machine={}).family == "rccl-ipc-container"
    assert told(ipc, machine={"gpus": 1}).family is None


LINES = [
    line
    for one in families()
    for record in one.records
    for line in [*record["signature"], *str(record.get("log", "")).splitlines()]
]


TEXT = st.text(st.characters(blacklist_categories=("Cc", "Cs")), max_size=60)


@given(st.lists(st.sampled_from(LINES) | TEXT, max_size=30), st.integers(0, 3))
def test_any_lines_get_an_answer_that_can_be_shown(scanner, lines, ranks):
    logs = [
        "\n".join(f"[rank{n}]: {line}" if ranks else line for line in lines).encode()
        for n in range(ranks + 1)
    ]
    scans = [scanner.read([log or b"x"], number) for number, log in enumerate(logs)]
    one = decide(scans, families(), ["log"] * len(logs))
    assert one.layer in LAYERS and 0 <= one.confidence <= 1
    assert (one.family is None) or one.confidence >= 0.5
    json.dumps(one.plain())
    assert show.text(one.view()).splitlines()[-1].endswith("harmless")
    if one.root_line:
        assert one.line_number >= 1
        assert one.failed or one.family is not None or one.confidence <= 0.5  # a hint


def test_the_shape_of_the_answer(told):
    plain = told(OOM).plain()
    assert list(plain) == [
        "schema", "layer", "component", "family", "root_line", "file", "line_number",
        "confidence", "cause", "fix", "sources", "also",
    ]  # fmt: skip
    assert plain["schema"] == 1 and 0 < plain["confidence"] <= 1
    assert plain["sources"] and plain["fix"].count("\n") >= 1


def test_a_warning_of_no_known_family_gives_a_layer_unsurely_and_once(told):
    one = told("UserWarning: a call failed: HIPBLAS_STATUS_INTERNAL_ERROR when calling `x`\n")
    assert (one.failed, one.family, one.layer, one.confidence) == (False, None, "cpp_hip", 0.4)
    assert not one.also
