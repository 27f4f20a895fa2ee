"""References on disk: what was written is read, what was touched is refused with one line."""

import json
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reefwatch.core.errors import UnreadableRecord, UsageError
from reefwatch.store.bundle import HEAD, ROWS, TENSORS, Bundle, BundleWriter


def made(folder):
    writer = BundleWriter(folder, {"torch": "2.13"})
    writer.row({"step": 0, "sketch": {"norm": 1.5}})
    writer.tensor("0/given/0", bytes(range(24)), "f32", (2, 3))
    writer.tensor("0/given/1", b"", "bf16", (0, 4))
    writer.about(steps=[0])
    writer.close()
    return folder


def test_what_was_written_is_read(tmp_path):
    bundle = Bundle(made(tmp_path / "ref"))
    assert bundle.head["torch"] == "2.13" and bundle.head["steps"] == [0]
    assert list(bundle.rows()) == [{"step": 0, "sketch": {"norm": 1.5}}]
    assert bundle.tensor("0/given/0") == (bytes(range(24)), "f32", (2, 3))
    assert bundle.tensor("0/given/1") == (b"", "bf16", (0, 4))
    assert bundle.tensor("else") is None


def test_the_tensors_are_what_safetensors_reads(tmp_path):
    torch = pytest.importorskip("safetensors.torch")  # numpy has no bfloat16
    kept = torch.load_file(made(tmp_path / "ref") / TENSORS)
    assert kept["0/given/0"].shape == (2, 3)


def test_nothing_is_there_until_it_is_whole_and_a_second_one_replaces_it(tmp_path):
    place = tmp_path / "ref"
    writer = BundleWriter(place, {})
    writer.row({"a": 1})
    assert not place.exists()
    writer.close()
    made(place)
    assert Bundle(place).head["steps"] == [0]
    assert [p.name for p in tmp_path.iterdir()] == ["ref"]


def test_a_folder_of_something_else_is_not_written_over(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(UsageError, match="is no reference"):
        BundleWriter(tmp_path, {})


def _head(folder, **changes):
    head = json.loads((folder / HEAD).read_text())
    head.update(changes)
    (folder / HEAD).write_text(json.dumps(head))


def _tensors(folder, header, data=b"\0" * 24):
    raw = json.dumps(header).encode()
    import hashlib

    content = struct.pack("<Q", len(raw)) + raw + data
    (folder / TENSORS).write_bytes(content)
    head = json.loads((folder / HEAD).read_text())
    digest = hashlib.sha256(content).hexdigest()
    head["files"][TENSORS] = {"bytes": len(content), "sha256": digest}
    (folder / HEAD).write_text(json.dumps(head))


def _entry(**changes):
    return {"x": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24], **changes}}


DAMAGE = {
    "no head": lambda f: (f / HEAD).unlink(),
    "head cut": lambda f: (f / HEAD).write_text((f / HEAD).read_text()[:40]),
    "head of another kind": lambda f: (f / HEAD).write_text("[1, 2]"),
    "head nested deep": lambda f: (f / HEAD).write_text("[" * 100_000),
    "newer": lambda f: _head(f, reference=99),
    "foreign files": lambda f: _head(f, files={"../../etc/passwd": {"bytes": 1, "sha256": ""}}),
    "size of text": lambda f: _head(f, files={ROWS: {"bytes": "9"}, TENSORS: {"bytes": 1}}),
    "rows cut": lambda f: (f / ROWS).write_bytes((f / ROWS).read_bytes()[:-3]),
    "rows gone": lambda f: (f / ROWS).unlink(),
    "rows a link": lambda f: ((f / ROWS).unlink(), (f / ROWS).symlink_to("/etc/hostname")),
    "tensors a folder": lambda f: ((f / TENSORS).unlink(), (f / TENSORS).mkdir()),
    "header too long": lambda f: _tensors(f, _entry(), b""),
    "shape does not fit": lambda f: _tensors(f, _entry(shape=[2, 4])),
    "huge shape": lambda f: _tensors(f, _entry(shape=[1 << 62, 1 << 62])),
    "negative shape": lambda f: _tensors(f, _entry(shape=[-2, -3])),
    "offset outside": lambda f: _tensors(f, _entry(data_offsets=[1 << 40, (1 << 40) + 24])),
    "offset of text": lambda f: _tensors(f, _entry(data_offsets=["0", "24"])),
    "unknown dtype": lambda f: _tensors(f, _entry(dtype="PICKLE")),
    "entry of another kind": lambda f: _tensors(f, {"x": 3}),
    "header of another kind": lambda f: _tensors(f, [1]),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_one_clear_error(what, tmp_path):
    folder = made(tmp_path / "ref")
    DAMAGE[what](folder)
    with pytest.raises(UnreadableRecord) as told:
        Bundle(folder)
    assert "\n" not in str(told.value)


def test_more_than_was_allowed_is_refused_before_it_is_read(tmp_path):
    with pytest.raises(UnreadableRecord, match="more than --max-size 10"):
        Bundle(made(tmp_path / "ref"), most=10)


@given(st.sampled_from([HEAD, ROWS, TENSORS]), st.integers(0, 10_000), st.integers(1, 255))
@settings(max_examples=120, deadline=None)
def test_a_flipped_byte_is_refused_or_leaves_every_value(tmp_path_factory, name, at, flip):
    folder = made(tmp_path_factory.mktemp("fuzz") / "ref")
    content = bytearray((folder / name).read_bytes())
    content[at % len(content)] ^= flip
    (folder / name).write_bytes(content)
    try:
        bundle = Bundle(folder)
    except UnreadableRecord:
        return
    assert name == HEAD  # only words about the run may have changed
    assert list(bundle.rows()) == [{"step": 0, "sketch": {"norm": 1.5}}]
    assert bundle.tensor("0/given/0") == (bytes(range(24)), "f32", (2, 3))
