"""What may not be shared is taken out; what the failure is about stays."""

from __future__ import annotations

import pytest

from reefwatch.triage.redact import Redactor

HIDDEN = {
    "Oct  7 12:58:23 build-7 kernel: amdgpu: GPU reset begin!": "build-7",
    "jane@build7:~/train$ python a.py": "jane",
    '  File "/home/jane/train/a.py", line 1': "jane",
    '  File "/mnt/users/jane/a.py", line 1': "jane",
    r'  File "C:\Users\Jane Doe\a.py", line 1': "Jane",
    "MASTER_ADDR=gpu-node-12 MASTER_PORT=29500": "gpu-node-12",
    "connect to 10.20.30.40:29500 failed": "10.20.30.40",
    "eth0 fe80::1ff:fe23:4567:890a up": "fe80::1ff:fe23:4567:890a",
    "link 52:54:00:ab:cd:ef": "52:54:00:ab:cd:ef",
    "mail jane.doe@example.org": "jane.doe@example.org",
    "gpu-12:1263985:1263985 [0] NCCL INFO Bootstrap": "gpu-12",
    "Uuid: GPU-c7b68b8200000000": "c7b68b8200000000",
    "saved /lustre/project_9/jane/run/model.pt": "project_9",
}
KEPT = (
    "amdgpu 0000:0a:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3",
    "rocm version 6.2.4.1, torch==2.8.0.1, listening on 127.0.0.1:29500",
    "Memory access fault by GPU node-1 (Agent handle: 0x55) on address 0x7f00. Reason: Unknown.",
    '  File "/usr/lib/python3.12/site-packages/torch/cuda/__init__.py", line 403, in _lazy_init',
    "[ 41%|####      | 366/903 [5:15:39<6:53:09, 46.16s/it]",
    "HSA_OVERRIDE_GFX_VERSION=11.0.0",
)


@pytest.mark.parametrize("line", HIDDEN)
def test_it_is_gone(line):
    assert HIDDEN[line] not in Redactor().line(line)


@pytest.mark.parametrize("line", KEPT)
def test_it_stays(line):
    assert Redactor().line(line) == line


def test_a_name_met_once_goes_everywhere():
    redactor = Redactor()
    redactor.line("Oct  7 12:58:23 build-7 kernel: a")
    redactor.line('  File "/home/jane/a.py", line 1')
    assert redactor.line("owner jane on build-7, janet stays") == (
        "owner <user-1> on <host-1>, janet stays"
    )


@pytest.mark.parametrize("line", [*HIDDEN, *KEPT])
def test_twice_is_as_once(line):
    once = Redactor().line(line)
    assert Redactor().line(once) == once
