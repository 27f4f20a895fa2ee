"""What launchers, loggers and terminals put around a line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefwatch.triage.clean import clean, plain

SAID = "RuntimeError: HIP error: invalid argument"
PREFIXES = {
    "[rank3]: ": "3",
    "[rank0]:[E1107 22:03:59.159782320 ProcessGroupNCCL.cpp:692] ": "0",
    "[default1]:": "1",
    "(EngineCore_DP0 pid=272) ": "EngineCore_DP0 pid=272",
    "(EngineCore pid=500) ERROR 03-23 22:46:30 [core.py:1108] ": "EngineCore pid=500",
    "(RayWorkerWrapper pid=12, ip=10.0.0.1) ": "RayWorkerWrapper pid=12, ip=10.0.0.1",
    "[1,4]<stderr>:": "4",
    " 7: ": "7",
    "vllm1-1  | ": "vllm1-1",
    "2025-07-24T19:49:48.0371194Z ": "",
    "2024-08-21 22:56:04,123 - trainer - ERROR - ": "",
    "Oct  7 12:58:23 host kernel: ": "",
    "[ 2237.944235] ": "",
    "[Fri Jul 10 20:23:53 2026] ": "",
    "[2024-12-07 02:54:42] ": "",
    "> ": "",
    "\x1b[1;36m(APIServer pid=1)\x1b[0;0m ": "APIServer pid=1",
    "#12 34.56 ": "",
}


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_prefix_is_taken_off_and_tells_who_speaks(prefix):
    line = clean(prefix + SAID)
    assert (line.body, line.stream) == (SAID, PREFIXES[prefix])


@pytest.mark.parametrize(
    "line",
    [
        "   45 | #include <rocrand/rocrand_xorwow.h>",
        " 41%|####      | 366/903 [5:15:39<6:53:09, 46.16s/it]",
        '  File "/x/a.py", line 12, in f',
        "#0  0x00007fffae2b40a7 in hip::FatBinaryInfo::AddDevProgram(int) ()",
        "node1:1263985:1263985 [0] NCCL INFO Bootstrap",
        "KeyError: 'a'",
    ],
)
def test_what_is_no_prefix_stays(line):
    assert clean(line).body == line


def test_times_are_ordered_whatever_their_form():
    lines = (
        "Oct  7 12:58:23 host kernel: a",
        "2025-10-07T12:58:24.5Z b",
        "[rank0]:[E1007 12:58:25.159 x.cpp:1] c",
        "[Tue Oct  7 12:58:26 2025] d",
        "ERROR 10-07 12:58:27 [core.py:1] e",
    )
    walls = [clean(line).wall for line in lines]
    assert all(wall is not None for wall in walls) and walls == sorted(walls)
    assert clean("[ 12.5] since the boot").wall is None


@given(st.text())
def test_any_line_can_be_taken_apart(text):
    line = clean(text)
    assert line.text.endswith(line.body)
    assert plain(line.text) == line.text
