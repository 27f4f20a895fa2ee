"""Whatever a captured tree holds, doctor tells it and does not fall over."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reefwatch.api import machine
from reefwatch.core.finding import Verdict
from reefwatch.show import json as as_json
from reefwatch.show import machine as as_text
from tests.machine import synthetic
from tests.machine.machines import desktop, write

TREES = Path(__file__).parents[1] / "data" / "sysfs"
NAMES = sorted(path.name for path in TREES.iterdir())

numbers = st.one_of(
    st.integers(-(10**30), 10**30), st.sampled_from([0, -1, 2**63, 2**64, 2**64 - 1, 10**400])
).map(str)
contents = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
    numbers.map(str.encode),
    st.just(b"\0" * 4096),
    st.just(b""),
    st.just(b"9" * 5000),
    st.just("٣ ١٢\n".encode()),
    st.just(b"simd_count -1\nsimd_per_cu 0\nlocation_id -5\ndomain 99999999999999\n"),
    st.just(b"[" * 3000),
    st.just(b'{"a": {"b": [null, true, 1e400]}}'),
)


def look(root: Path) -> None:
    """All of it: inventory, verdicts, both outputs. No check may fail of itself."""
    report = machine.doctor(root=root)
    errored = [f"{o.code}: {o.reason}" for o in report.outcomes if o.verdict is Verdict.ERRORED]
    assert not errored, errored
    text = as_text.render(report, color=False, width=100)
    assert text.endswith(report.last_line() + "\n") and "\x1b" not in text
    json.loads(as_json.render(report))


def paths(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())


@st.composite
def damages(draw: Any, count: int) -> list[tuple[int, str, bytes]]:
    """(which file, what is done to it, with what)."""
    one = st.tuples(
        st.integers(0, count - 1),
        st.sampled_from(
            ["replace", "cut", "remove", "folder", "loop", "outside", "number", "fifo"]
        ),
        contents,
    )
    return draw(st.lists(one, min_size=1, max_size=8))


def damage(path: Path, how: str, content: bytes) -> None:
    if not path.is_file() or path.is_symlink():
        return
    raw = path.read_bytes()
    path.unlink()
    if how == "replace":
        path.write_bytes(content)
    elif how == "cut":
        path.write_bytes(raw[: len(raw) // 2])
    elif how == "folder":
        path.mkdir()
    elif how == "loop":
        path.symlink_to(path.name)
    elif how == "outside":
        path.symlink_to("/etc/passwd")
    elif how == "fifo":
        os.mkfifo(path)
    elif how == "number":
        lines = raw.split(b"\n")
        where = len(content) % len(lines)
        lines[where] = (lines[where].split(b" ") or [b""])[0] + b" " + content
        path.write_bytes(b"\n".join(lines))


def check(tree: Path, seed: list[tuple[int, str, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as made:
        root = Path(made) / "tree"
        shutil.copytree(tree, root, symlinks=True)
        files = paths(root)
        for number, how, content in seed:
            damage(files[number % len(files)], how, content)
        look(root)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(seed=damages(400))
def test_a_damaged_tree_is_told(name: str, seed: list[tuple[int, str, bytes]]) -> None:
    check(TREES / name, seed)


@pytest.fixture(scope="module")
def machine_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("whole") / "m", desktop())


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(seed=damages(400))
def test_a_damaged_machine_is_told(machine_tree: Path, seed: list[tuple[int, str, bytes]]) -> None:
    check(machine_tree, seed)


@pytest.mark.parametrize("name", ["two_navi_igpu", "mi300x_cpx_nps4", "sriov_host"])
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(seed=damages(400), links=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99))))
def test_a_damaged_tree_of_links_is_told(name: str, seed: Any, links: Any) -> None:
    """Links led astray: to others, to themselves, out of the tree."""
    with tempfile.TemporaryDirectory() as made:
        root = synthetic.MACHINES[name]().write(Path(made) / "tree")
        found = sorted(path for path in root.rglob("*") if path.is_symlink())
        for one, other in links[:6]:
            path = found[one % len(found)]
            path.unlink()
            target = [found[other % len(found)], path, Path("/"), Path("../../.."), root][other % 5]
            path.symlink_to(target)
        files = paths(root)
        for number, how, content in seed:
            damage(files[number % len(files)], how, content)
        look(root)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda part: (
        st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=9), part, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def changed(draw: Any, whole: Any) -> Any:
    """The value with one part of it, at any depth, replaced by something else."""
    if isinstance(whole, dict) and whole and draw(st.integers(0, 3)):
        key = draw(st.sampled_from(sorted(whole)))
        return {**whole, key: draw(changed(whole[key]))}
    if isinstance(whole, list) and whole and draw(st.integers(0, 3)):
        return [draw(changed(whole[0])), *whole[1:]]
    return draw(values)


JSONS = {name: json.loads(text) for name, text in desktop().items() if name.endswith(".json")}
JSONS["process.json"]["binaries"] = {
    "/captured/site-0/x.so": {"needed": ["libcudart.so"], "execstack": False, "soname": ""}
}


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(data=st.data(), file=st.sampled_from(["process.json", *sorted(JSONS)]))
def test_hostile_json_is_told(data: Any, file: str) -> None:
    told = data.draw(changed(JSONS[file]))
    with tempfile.TemporaryDirectory() as made:
        root = write(Path(made) / "m", desktop())
        (root / file).write_text(json.dumps(told))
        look(root)


def test_a_tree_of_nothing(tmp_path: Path) -> None:
    look(tmp_path)


def test_nothing_outside_the_tree_is_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("simd_count 192\n")
    root = write(tmp_path / "m", {"sys/class/kfd/kfd/topology/nodes/2/x": ""})
    (root / "sys/class/kfd/kfd/topology/nodes/1").symlink_to(tmp_path)
    (root / "etc").symlink_to("/etc")
    report = machine.doctor(root=root)
    facts = report.records[0].facts
    assert "reason" in vars(facts["machine.os"])
    assert "reason" in vars(facts["machine.gpus"])  # two nodes that tell nothing: not "no card"
    assert "192" not in str(facts)
