"""`reefwatch triage`: files, pipes, packed logs, what cannot be read, and what it writes."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"

OOM = "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB.\n"
LOG = f'node1 starts\n  File "/home/jane/a.py", line 1\n{OOM}'
LAST = "1 failure, known, 0 reporters, 0 harmless"


@pytest.fixture
def log(tmp_path):
    file = tmp_path / "run.log"
    file.write_text(LOG)
    return file


def test_a_file_is_told_in_words_and_ends_in_a_count(reefwatch, log):
    done = reefwatch("triage", "run.log")
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.splitlines()[-1] == LAST
    assert "run.log:3" in done.stdout and "hip-oom: out of GPU memory" in done.stdout


def test_json_has_the_agreed_keys(reefwatch, log):
    done = reefwatch("triage", "--json", "run.log")
    told = json.loads(done.stdout)
    assert (told["layer"], told["family"], told["line_number"]) == ("cpp_hip", "hip-oom", 3)
    assert told["file"] == "run.log" and told["root_line"] == OOM.strip()


def test_a_pipe(reefwatch):
    done = reefwatch("triage", "--json", stdin=LOG.encode())
    assert json.loads(done.stdout)["file"] == "<stdin>" and done.returncode == 3
    assert reefwatch("triage", "-", stdin=b"epoch 1 loss 0.3\n").returncode == 0


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_packed_logs(reefwatch, tmp_path, pack):
    (tmp_path / "run.log.packed").write_bytes(pack(LOG.encode()))
    done = reefwatch("triage", "--json", "run.log.packed")
    assert json.loads(done.stdout)["line_number"] == 3


def test_a_packed_log_that_is_cut_short_is_read_as_far_as_it_goes(reefwatch, tmp_path):
    text = LOG + "".join(f"  at {n * 7919 % 1000:x}\n" for n in range(20000))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(text.encode())[:-2000])
    done = reefwatch("triage", "--json", "cut.gz")
    assert json.loads(done.stdout)["family"] == "hip-oom"
    assert "cut.gz: the archive is cut short" in done.stderr
    assert "cut.gz: the archive is cut short" in reefwatch("triage", "cut.gz").stdout


def test_an_archive_that_swells_is_bounded(tmp_path, monkeypatch):
    from reefwatch.api import triage
    from reefwatch.core.errors import ReefwatchError

    monkeypatch.setattr(triage, "_MOST", 1 << 20)
    packed = tmp_path / "swells.gz"
    packed.write_bytes(
        gzip.compress(b"RuntimeError: HIP out of memory. Tried\n" + b"a" * (1 << 23))
    )
    answer = triage.triage([packed])
    assert answer.diagnosis.family == "hip-oom"
    assert "over 100 times its size: it was read up to there" in answer.remarks[0]
    with pytest.raises(ReefwatchError, match="unpack it first if it is a log"):
        triage.redact([packed], tmp_path / "shared.log")
    assert not (tmp_path / "shared.log").exists()


def test_several_logs_are_the_ranks_of_one_run(reefwatch, tmp_path, log):
    (tmp_path / "rank1.log").write_text("[rank1]: KeyError: 'x'\n")
    told = json.loads(reefwatch("triage", "--json", "rank1.log", "run.log").stdout)
    assert (told["family"], told["file"]) == ("hip-oom", "run.log")


UNREADABLE = {
    "empty.log": (b"", "the log is empty"),
    "zeros.log": (bytes(5000), "nothing but zero bytes"),
    "program": (b"\x7fELF" + bytes(200), "an ELF program"),
    "noise.log": (bytes(range(1, 256)) * 30, "no text in any encoding"),
    "broken.gz": (b"\x1f\x8b\x08" + bytes(30), "cannot be read"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_says_why(reefwatch, tmp_path, name):
    raw, words = UNREADABLE[name]
    (tmp_path / name).write_bytes(raw)
    done = reefwatch("triage", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"reefwatch: {name}: ") and words in done.stderr
    told = json.loads(reefwatch("triage", "--json", name).stdout)
    assert told["layer"] == "unknown" and words in told["cause"]


def test_usage(reefwatch, log, tmp_path):
    (tmp_path / "list.json").write_text("[]")
    for args, words in (
        (("triage", "gone.log"), "gone.log: cannot be read"),
        (("triage", "--last"), "there is no watched run"),
        (("triage", "--last", "run.log"), "--last takes no log"),
        (("triage", "run.log", "--redact", "no/where.log"), "there is no folder"),
        (("triage", "run.log", "--redact", "run.log"), "that is the log itself"),
        (("triage", "run.log", "--machine", "run.log"), "no JSON"),
        (("triage", "-", "--bundle", "b.zip"), "need the log as a file"),
        (("triage", "run.log", "--redact", "-"), "--redact -: give the name of a file"),
        (("triage", "run.log", "--bundle", "-"), "--bundle -: give the name of a file"),
        (("triage", "run.log", "--redact", "/proc/shared.log"), "cannot be written"),
        (("triage", "run.log", "--bundle", "/proc/b.zip"), "cannot be written"),
        (("triage", "run.log", "--redact", "/dev/full"), "cannot be written"),
        (("triage", "run.log", "--machine", "list.json"), "no document of `reefwatch doctor"),
    ):
        done = reefwatch(*args, stdin=b"x")
        assert done.returncode == 2, args
        assert words in done.stderr and "fault of reefwatch" not in done.stderr, args
    assert log.read_text() == LOG


def test_one_log_of_two_that_cannot_be_read_is_a_remark(reefwatch, log):
    done = reefwatch("triage", "gone.log", "run.log")
    assert done.returncode == 3 and "remark       gone.log: cannot be read" in done.stdout


def test_an_unknown_family_under_require_proof(reefwatch, tmp_path):
    (tmp_path / "a.log").write_text("KeyError: 'x'\n")
    assert reefwatch("triage", "a.log").returncode == 3
    assert reefwatch("triage", "a.log", "--require-proof").returncode == 4


def test_a_copy_that_can_be_shared(reefwatch, log, tmp_path):
    done = reefwatch("triage", "run.log", "--redact", "shared.log")
    assert done.stderr == "reefwatch: shared.log: 3 lines\n"
    shared = (tmp_path / "shared.log").read_text()
    assert "jane" not in shared and OOM in shared


def test_a_bundle_has_the_headings_of_the_templates_and_no_names(reefwatch, log, tmp_path):
    (tmp_path / "facts.json").write_text('{"gfx": "gfx1100", "home": "/home/jane"}')
    done = reefwatch("triage", "run.log", "--bundle", "b.zip", "--machine", "facts.json")
    assert done.returncode == 3, done.stderr
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert set(parts) == {
        "amd.md", "pytorch.md", "environment.txt", "excerpt.log", "triage.json", "doctor.json",
    }  # fmt: skip
    for heading in ("Problem Description", "ROCm Version", "Steps to Reproduce"):
        assert f"### {heading}" in parts["amd.md"]
    assert "### Versions" in parts["pytorch.md"] and "torch==" in parts["pytorch.md"]
    assert OOM.strip() in parts["excerpt.log"]
    assert not [name for name, text in parts.items() if "jane" in text]


def test_a_bundle_has_what_doctor_finds(reefwatch, log, tmp_path):
    broken = {"code": "MACH010", "title": "the nodes are open", "verdict": "broken"}
    (tmp_path / "facts.json").write_text(json.dumps({"outcomes": [broken]}))
    reefwatch("triage", "run.log", "--bundle", "b.zip", "--machine", "facts.json")
    reefwatch("triage", "run.log", "--bundle", "c.zip")
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        assert "MACH010: the nodes are open" in archive.read("amd.md").decode()
    with zipfile.ZipFile(tmp_path / "c.zip") as archive:
        assert json.loads(archive.read("doctor.json"))["command"] == "doctor"


def test_an_excerpt_of_a_long_log_is_around_the_places(reefwatch, tmp_path):
    lines = [f"step {n} loss 0.1" for n in range(5000)]
    lines[2500] = OOM.strip()
    (tmp_path / "long.log").write_text("\n".join(lines) + "\n")
    reefwatch("triage", "long.log", "--bundle", "b.zip")
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        excerpt = archive.read("excerpt.log").decode().splitlines()
    assert len(excerpt) < 500
    assert OOM.strip() in excerpt and "step 2499 loss 0.1" in excerpt
    assert excerpt[0] == "step 0 loss 0.1" and excerpt[-1] == "step 4999 loss 0.1"
    assert "[... 2380 lines ...]" in excerpt


def test_a_bundle_never_takes_the_place_of_what_it_is_made_from(reefwatch, log):
    done = reefwatch("triage", "run.log", "--bundle", "run.log")
    assert done.returncode == 2 and "that is the log itself" in done.stderr
    assert log.read_text() == LOG
    done = reefwatch("triage", "run.log", "--redact", "out", "--bundle", "out")
    assert done.returncode == 2 and "the same file" in done.stderr


def test_a_log_that_could_not_be_read_is_told_and_counts(reefwatch, tmp_path):
    (tmp_path / "ok.log").write_text("epoch 1 loss 0.3\n")
    for options in ((), ("--json",)):
        done = reefwatch("triage", *options, "ok.log", "missing.log")
        assert done.returncode == 2 and "missing.log" in done.stdout + done.stderr


def test_a_stdout_that_takes_no_more_is_no_fault_of_ours(tmp_path, log):
    for json_ in ([], ["--json"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [sys.executable, "-m", "reefwatch", "triage", "run.log", *json_],
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": str(SRC)},
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
            )
        assert done.returncode == 2
        why = "stdout cannot be written (No space left on device): the answer is not told"
        assert done.stderr == f"reefwatch: {why}\n"


def test_machine_facts_that_say_nothing_are_told(reefwatch, log, tmp_path):
    (tmp_path / "empty.json").write_text("{}")
    done = reefwatch("triage", "run.log", "--machine", "empty.json")
    assert done.returncode == 3 and "--machine names no card" in done.stdout


def test_a_copy_hides_a_name_in_every_line_and_again_is_the_same(reefwatch, tmp_path):
    lines = [f"step {n} on gpu-box, by jane.doe\n" for n in range(300)]
    lines += ["jane.doe@gpu-box:~/x$ python a.py\n", '  File "/home/jane.doe/a.py", line 1\n']
    (tmp_path / "a.log").write_text("".join(lines))
    assert reefwatch("triage", "a.log", "--redact", "b.log").returncode == 3  # a frame
    once = (tmp_path / "b.log").read_text()
    assert once.startswith("step 0 on <host-") and "jane" not in once and "gpu-box" not in once
    assert once.count("<user-1>") + once.count("<user-2>") == 302
    reefwatch("triage", "b.log", "--redact", "c.log")
    assert (tmp_path / "c.log").read_text() == once


def test_a_copy_is_of_the_logs_that_could_be_read(reefwatch, tmp_path, log):
    done = reefwatch("triage", "run.log", "gone.log", "--redact", "b.log")
    assert done.returncode == 3 and done.stderr.endswith("b.log: 3 lines\n")
    assert OOM in (tmp_path / "b.log").read_text()


def test_a_copy_that_fails_leaves_nothing_half_written(reefwatch, tmp_path, log):
    (tmp_path / "shared.log").write_text("as it was")
    (tmp_path / "noise.log").write_bytes(bytes(range(1, 256)) * 30)
    done = reefwatch("triage", "run.log", "noise.log", "--redact", "shared.log")
    assert done.returncode in (2, 3)
    assert not list(tmp_path.glob("*.part"))
