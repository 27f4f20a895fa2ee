"""The host never raises: what cannot be read has a reason."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefwatch.core.fact import Unknown
from reefwatch.gather.host import LiveHost, Ran, ReplayedHost

SYSFS = Path(__file__).parents[1] / "data" / "sysfs"


def reason(fact: object) -> str:
    assert isinstance(fact, Unknown)
    return fact.reason


def test_nul_padding_is_taken_off_and_nothing_is_no_value(tmp_path: Path) -> None:
    (tmp_path / "padded").write_bytes(b"53000\n" + b"\0" * 4090)
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "page").write_bytes(b"\0" * 4096)
    host = ReplayedHost(tmp_path)
    assert host.read("/padded") == "53000"
    assert reason(host.read("/empty")) == "/empty is empty"
    assert reason(host.read("/page")) == "/page is empty"


def test_captured_pages_are_padded() -> None:
    host = ReplayedHost(SYSFS / "rx6900xt")
    folder = "/sys/class/drm/card0/device"
    raw = host.read_bytes(f"{folder}/mem_info_vram_total")
    assert isinstance(raw, bytes) and raw.endswith(b"\0")
    assert host.read(f"{folder}/mem_info_vram_total") == "17163091968"


def test_absent_folder_and_file(tmp_path: Path) -> None:
    host = LiveHost()
    assert reason(host.read(f"{tmp_path}/x")) == f"there is no {tmp_path}/x"
    assert "EISDIR" in reason(host.read(str(tmp_path)))
    assert host.names(f"{tmp_path}/x") == ()
    assert "could not be read" in reason(host.read("/with\0nul"))


def test_a_read_that_the_kernel_refuses_says_why() -> None:
    """/proc/self/mem answers EIO at address 0; sysfs answers EINVAL, EBUSY or EPERM alike."""
    assert reason(LiveHost().read("/proc/self/mem")) == "/proc/self/mem could not be read (EIO)"


def test_a_fifo_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert reason(LiveHost().read(f"{tmp_path}/fifo")) == f"{tmp_path}/fifo is empty"


def test_numbers_in_numeric_order(tmp_path: Path) -> None:
    for name in ("10", "2", "1", "b2", "b10", "a"):
        (tmp_path / "nodes" / name).mkdir(parents=True)
    host = ReplayedHost(tmp_path)
    assert host.names("/nodes") == ("1", "2", "10", "a", "b2", "b10")
    assert host.find("/nodes/b*") == ("/nodes/b2", "/nodes/b10")
    assert host.find("/nodes/*/x") == ()


def test_nothing_outside_the_tree_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("no")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "link").symlink_to(tmp_path / "secret")
    (tree / "inner").write_text("yes")
    (tree / "good").symlink_to("inner")
    host = ReplayedHost(tree)
    assert "leads out" in reason(host.read("/link"))
    assert reason(host.read("/../secret")) == "there is no /../secret"
    assert host.read("/good") == "yes"
    assert host.target("/good") == "/inner"
    assert "EINVAL" in reason(host.target("/inner"))


def test_replayed_commands_and_variables(tmp_path: Path) -> None:
    (tmp_path / "environ.json").write_text(json.dumps({"HIP_VISIBLE_DEVICES": "1"}))
    rows = [{"argv": ["uname", "-r"], "code": 0, "out": "6.8\n"}]
    (tmp_path / "commands.json").write_text(json.dumps(rows))
    host = ReplayedHost(tmp_path)
    assert dict(host.environ) == {"HIP_VISIBLE_DEVICES": "1"}
    assert host.run(["uname", "-r"]) == Ran(0, "6.8\n", "")
    assert reason(host.run(["uname"])) == "the captured tree has no answer of uname"


@pytest.mark.parametrize("text", ["", "[", "3", '{"a": 1'])
def test_replay_survives_broken_side_files(tmp_path: Path, text: str) -> None:
    (tmp_path / "environ.json").write_text(text)
    (tmp_path / "commands.json").write_text(text)
    assert dict(ReplayedHost(tmp_path).environ) == {}


def test_programs() -> None:
    host = LiveHost()
    assert host.run([sys.executable, "-c", "print('x'); raise SystemExit(3)"]) == Ran(3, "x\n", "")
    assert reason(host.run(["no-such-program-here"])) == "there is no program no-such-program-here"
    slow = [sys.executable, "-c", "import time; time.sleep(60)"]
    assert "did not answer in 0.1 s" in reason(host.run(slow, timeout=0.1))


def test_a_script_that_mocks_open_neither_sees_nor_disturbs_us(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "x").write_text("7")
    seen: list[object] = []

    def mocked(*args: object, **kwargs: object) -> object:
        seen.append(args)
        raise AssertionError("called")

    for name in ("open", "read", "close", "listdir"):
        monkeypatch.setattr(os, name, mocked)
    monkeypatch.setattr("builtins.open", mocked)
    value, names = LiveHost().read(f"{tmp_path}/x"), LiveHost().names(str(tmp_path))
    monkeypatch.undo()
    assert (value, names, seen) == ("7", ("x",), [])


@given(st.text(), st.binary(max_size=50))
def test_no_path_and_no_bytes_raise(tmp_path_factory, path: str, raw: bytes) -> None:  # type: ignore[no-untyped-def]
    root = tmp_path_factory.getbasetemp() / "any"
    root.mkdir(exist_ok=True)
    (root / "f").write_bytes(raw)
    host = ReplayedHost(root)
    for answer in (host.read(path), host.read("/f"), host.target(path)):
        assert isinstance(answer, (str, Unknown))
    assert isinstance(host.find(path or "/"), tuple)
    assert all(host.read(found) is not None for found in host.find("/*"))
