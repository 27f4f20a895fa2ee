"""Tensors come back byte for byte, without torch."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from reefwatch.core.errors import UnreadableRecord
from reefwatch.core.ports import ReferenceReader
from reefwatch.store.reader import read
from reefwatch.store.tensors import Tensors, array
from reefwatch.store.writer import Writer


def write(folder: Path) -> Path:
    writer = Writer(folder, {"rank": 3, "world": 4})
    writer.tensor("a", np.arange(6, dtype="<f4").tobytes(), "f32", (2, 3))
    writer.tensor("empty", b"", "f32", (0,))
    writer.tensor("b", b"\x80\x3f\xc0\xff", "bf16", (2,))
    writer.tensor("a", np.arange(4, dtype="<i8").tobytes(), "i64", (4,))
    writer.tensor("view", memoryview(np.arange(4, dtype="<f8")), "f64", (4,))  # type: ignore[arg-type]
    writer.close()
    return folder / "rank3.jsonl"


def test_bytes_come_back(tmp_path: Path) -> None:
    path = write(tmp_path)
    tensors: ReferenceReader = Tensors(path, read(path))
    assert tensors.tensor("b") == (b"\x80\x3f\xc0\xff", "bf16", (2,))
    assert tensors.tensor("a") == (np.arange(4).tobytes(), "i64", (4,))
    assert tensors.tensor("empty") == (b"", "f32", (0,))
    assert tensors.tensor("view") == (np.arange(4.0).tobytes(), "f64", (4,))
    assert tensors.tensor("nowhere") is None


def test_arrays(tmp_path: Path) -> None:
    path = write(tmp_path)
    tensors = Tensors(path, read(path))
    assert tensors.names() == ("a", "empty", "b", "view")
    bf16 = tensors.array("b")
    assert bf16 is not None and bf16.dtype == np.float32
    assert bf16[0] == 1.0 and math.isnan(bf16[1])
    assert tensors.array("nowhere") is None


def test_every_narrow_float_is_widened_exactly() -> None:
    torch = pytest.importorskip("torch")
    every = bytes(range(256))
    for dtype, name in (("f8e4m3", "float8_e4m3fn"), ("f8e5m2", "float8_e5m2")):
        truth = torch.frombuffer(bytearray(every), dtype=getattr(torch, name)).float().numpy()
        mine = array(every, dtype, (256,))
        np.testing.assert_array_equal(mine, truth)
        numbers = ~np.isnan(truth)
        assert (np.signbit(mine) == np.signbit(truth))[numbers].all()
    pairs = np.arange(65536, dtype="<u2").tobytes()
    truth = torch.frombuffer(bytearray(pairs), dtype=torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(array(pairs, "bf16", (65536,)), truth)


def test_a_dtype_without_counterpart() -> None:
    with pytest.raises(ValueError, match="no numpy counterpart of dtype 'other'"):
        array(b"", "other", (0,))


def test_damage_is_told(tmp_path: Path) -> None:
    path = write(tmp_path)
    record = read(path)
    raw = (tmp_path / "rank3.tensors").read_bytes()
    where = next(event.data["offset"] for event in record.events if event.id == "b")
    (tmp_path / "rank3.tensors").write_bytes(raw[:where] + b"\0" + raw[where + 1 :])
    with pytest.raises(UnreadableRecord, match="the bytes of 'b' are not those written"):
        Tensors(path, record).tensor("b")
    (tmp_path / "rank3.tensors").write_bytes(raw[:-1])
    with pytest.raises(UnreadableRecord, match="cut short within 'view'"):
        Tensors(path, record).tensor("view")
    (tmp_path / "rank3.tensors").unlink()
    with pytest.raises(UnreadableRecord, match="no such file"):
        Tensors(path, record).tensor("b")


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"offset": 0, "nbytes": 1, "dtype": "u8", "shape": None, "crc": "0"},
        {"offset": 0, "nbytes": 1, "dtype": "u8", "shape": [1], "crc": "zz"},
        {"offset": -1, "nbytes": 1, "dtype": "u8", "shape": [1], "crc": "00"},
        {"offset": 2**80, "nbytes": 1, "dtype": "u8", "shape": [1], "crc": "00"},
    ],
)
def test_an_entry_that_is_not_whole(tmp_path: Path, data: dict[str, object]) -> None:
    (tmp_path / "rank0.tensors").write_bytes(b"12")
    writer = Writer(tmp_path, {"rank": 0})
    writer.event("tensor", data, id="x")
    writer.close()
    with pytest.raises(UnreadableRecord):
        Tensors(tmp_path / "rank0.jsonl", writer.record()).tensor("x")
