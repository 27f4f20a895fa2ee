"""What may not be shared is taken out; what the failure is about stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    "curl -u jane:s3cret https://example.org": "s3cret",
    'curl --user "jane:two words" https://example.org': "words",
    "curl -u jane:x https://example.org": "jane",
    "see http://wiki.corp.example.com/x": "corp",
    '{"password": "two words", "n": 1}': "words",
    "wget --password='two words' ftp://x": "words",
    "PGPASSWORD='two words' psql": "words",
    "mysql -u jane -ps3cret! db": "s3cret",
    "sshpass -p s3cret ssh gpu": "s3cret",
    "db = postgresql://jane:s3cret@db.internal.corp.example.com:5432/x": "s3cret",
    "db = postgresql://jane:x@db.internal.corp.example.com:5432/x": "corp",
    "git clone https://jane@git.corp.example.com/x": "corp",
    '  File "/Users/Jane Doe/code/a.py", line 3': "Doe",
    '  File "C:/Users/Jane/code/a.py", line 3': "Jane",
    '  File "~jane/a.py"': "jane",
    '  File "/mnt/nfs/home2/jane/a.py", line 4': "jane",
    "listening on 2001:db8::1": "2001:db8::1",
    "peer [2001:db8:0:1:1:1:1:1]:29500": "2001:db8",
    "Cookie: session=abc; id=4": "abc",
    "2024-08-18T01:19:27.141093+00:00 build-7 kernel: amdgpu: MES failed": "build-7",
    "Linux build-7 6.8.0-45-generic #45-Ubuntu SMP x86_64": "build-7",
    "  host      : e1-4.mycluster": "mycluster",
    "srun: error: build-7: task 3: Exited with exit code 1": "build-7",
    "ip-10-0-3-7.ec2.internal:19799:38219 [3] NCCL INFO hello": "ec2",
    "/tmp/torchinductor_jane/ab/cab.py": "jane",
    "uid=1001(jane) gid=1001(jane)": "uid=1001(jane)",
}
KEPT = (
    "amdgpu 0000:0a:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3",
    "rocm version 6.2.4.1, torch==2.8.0.1, listening on 127.0.0.1:29500",
    "Memory access fault by GPU node-1 (Agent handle: 0x55) on address 0x7f00. Reason: Unknown.",
    '  File "/usr/lib/python3.12/site-packages/torch/cuda/__init__.py", line 403, in _lazy_init',
    "[ 41%|####      | 366/903 [5:15:39<6:53:09, 46.16s/it]",
    "HSA_OVERRIDE_GFX_VERSION=11.0.0",
    "terminate called after throwing an instance of 'c10::Error' in ck::tensor_operation::device",
    "[2024-01-02 11:22:33] 12:34:56 rocm 7.0.2.1 hip-runtime 6.4.1.2",
    '  pad_token: "<pad>", eos_token = "</s>", max_tokens: 128, tokenizer="a b", key = "a.b c"',
    "torch._C._cluster.local(x) see https://github.com/ROCm/hip/issues/3282",
    "user error: the name of a host is not known",
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


KEY = """-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW
QyNTUxOQAAACD
-----END OPENSSH PRIVATE KEY-----
step 1 loss 2.0"""


def shared(text: str) -> str:
    redactor = Redactor()
    lines = text.split("\n")
    for line in lines:
        redactor.look(line)
    return "\n".join(map(redactor.line, lines))


def test_the_body_of_a_key_is_gone_and_what_follows_stays():
    done = shared(KEY).splitlines()
    assert done[1:3] == ["<secret>", "<secret>"] and done[4] == "step 1 loss 2.0"
    stamped = shared("\n".join(f"2024-01-02 03:04:05 {line}" for line in KEY.splitlines()))
    assert "b3Bl" not in stamped and "QyNT" not in stamped and "step 1 loss" in stamped
    one = KEY.replace("\n", "\\n")
    assert "b3Bl" not in shared(one) and "QyNT" not in shared(one)
    cut = "\n".join(KEY.splitlines()[:2]) + "\nTraceback (most recent call last):\nKeyError: 'a'"
    assert shared(cut).splitlines()[2:] == ["Traceback (most recent call last):", "KeyError: 'a'"]


def test_one_name_is_one_placeholder_and_is_gone_before_it_was_given_away():
    text = """gpuhost3 is up, owner jane.doe
jane.doe@gpuhost3:~$ ls /home/other
  File "/home/jane.doe/a.py" "/home/other/b.py"
gpuhost3:12:13 [0] NCCL INFO x"""
    done = shared(text)
    assert done.splitlines()[0] == "<host-1> is up, owner <user-1>"
    assert done.count("<user-1>") == 3 and done.count("<user-2>") == 2
    assert done.count("<host-1>") == 3 and "<host-2>" not in done


def test_a_copy_that_is_redacted_again_stays_as_it_is():
    once = shared("\n".join([*HIDDEN, *KEPT, KEY]))
    assert shared(once) == once
    more = shared(once + "\nnewman@otherhost:~$ ls")
    assert more.startswith(once) and "newman" not in more
    new = more.rpartition("\n")[2]
    assert new.partition("@")[0] not in once  # nobody else's placeholder


def test_what_stands_beside_a_secret_stays():
    assert shared("curl -u jane:s3cret https://a.org -o x") == (
        "curl -u <user-1>:<secret> https://a.org -o x"
    )


def test_names_of_three_letters_go_from_their_places_only():
    done = shared('  File "/home/max/a.py", line 3\n    x = torch.max(y)')
    assert done == '  File "/home/<user-1>/a.py", line 3\n    x = torch.max(y)'


@given(st.lists(st.sampled_from([*HIDDEN, *KEPT]) | st.text(max_size=80), max_size=20))
def test_any_text_redacted_twice_is_as_once(lines):
    once = shared("\n".join(lines))
    assert shared(once) == once
