"""References that were damaged on the way: each is one clear error, or reads as it was written."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import struct
import sys
import tempfile
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from reefwatch.core.errors import UnreadableRecord
from reefwatch.store.bundle import HEAD, ROWS, TENSORS, Bundle, BundleWriter, Tensors

FILES = (HEAD, ROWS, TENSORS)
MOST = 64 << 20
"""Bytes that reading a small bundle may take, whatever it claims."""


def made(place: Path) -> Path:
    writer = BundleWriter(place, {"steps": [0], "losses": [1.0]})
    for n in range(40):
        sketch = {"dtype": "f32", "shape": [4, 4], "norm": 1.0, "bad": 0, "axis": 1}
        writer.row({"step": 0, "op": f"op{n}", "sketch": {**sketch, "at": [1.0], "slices": [1.0]}})
        writer.tensor(f"0/given/{n}", os.urandom(64), "f32", (4, 4))
    writer.close()
    return place


def truncated(place: Path, r: random.Random) -> None:
    file = place / r.choice(FILES)
    raw = file.read_bytes()
    file.write_bytes(raw[: r.randrange(len(raw))])


def flipped(place: Path, r: random.Random) -> None:
    file = place / r.choice((ROWS, TENSORS))
    raw = bytearray(file.read_bytes())
    raw[r.randrange(len(raw))] ^= 1 << r.randrange(8)
    file.write_bytes(raw)


def renamed(place: Path, r: random.Random) -> None:
    file = place / r.choice(FILES)
    file.rename(place / f"{file.name}.old")


def swapped(place: Path, r: random.Random) -> None:
    (place / ROWS).rename(place / "x")
    (place / TENSORS).rename(place / ROWS)
    (place / "x").rename(place / TENSORS)


def linked(place: Path, r: random.Random) -> None:
    file = place / r.choice((ROWS, TENSORS))
    file.unlink()
    file.symlink_to("/etc/hostname")


def foreign(place: Path, r: random.Random) -> None:
    (place / HEAD).write_text(
        r.choice(["[]", "{}", '{"reference": "1"}', "PK\x03\x04", "\x80\x04."])
    )


def newer(place: Path, r: random.Random) -> None:
    head = json.loads((place / HEAD).read_text())
    (place / HEAD).write_text(json.dumps({**head, "reference": 10**6}))


def escaping(place: Path, r: random.Random) -> None:
    head = json.loads((place / HEAD).read_text())
    head["files"]["../" * 5 + "etc/passwd"] = head["files"].pop(ROWS)
    (place / HEAD).write_text(json.dumps(head))


def deep(place: Path, r: random.Random) -> None:
    (place / HEAD).write_text("[" * 100_000)


def _header(place: Path, change: Callable[[dict[str, object]], None], honest: bool) -> None:
    """Change the header of the tensors, and the digests with it as a forger would."""
    import hashlib

    raw = (place / TENSORS).read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    raw = struct.pack("<Q", len(text)) + text + raw[8 + length :]
    (place / TENSORS).write_bytes(raw)
    if honest:
        head = json.loads((place / HEAD).read_text())
        digest = hashlib.sha256(raw).hexdigest()
        head["files"][TENSORS] = {"bytes": len(raw), "sha256": digest}
        (place / HEAD).write_text(json.dumps(head))


def oversized(place: Path, r: random.Random) -> None:
    def change(header: dict[str, object]) -> None:
        name = r.choice(sorted(header))
        big = r.choice([[1 << 40], [1 << 20, 1 << 20], [2**63], [-4], [10**30, 4]])
        header[name] = {"dtype": "F32", "shape": big, "data_offsets": [0, 1 << 42]}

    _header(place, change, True)


def overlapping(place: Path, r: random.Random) -> None:
    def change(header: dict[str, object]) -> None:
        name = r.choice(sorted(header))
        header[name] = {"dtype": "F32", "shape": [4, 4], "data_offsets": [10**6, 10**6 + 64]}

    _header(place, change, True)


def endless(place: Path, r: random.Random) -> None:
    raw = (place / TENSORS).read_bytes()
    (place / TENSORS).write_bytes(struct.pack("<Q", r.choice([1 << 62, 2**64 - 1])) + raw[8:])


KINDS = {
    "truncated": truncated,
    "a bit flipped": flipped,
    "renamed": renamed,
    "files swapped": swapped,
    "a link to elsewhere": linked,
    "foreign": foreign,
    "of a newer schema": newer,
    "a path that escapes": escaping,
    "nested without end": deep,
    "oversized tensors, digest right": oversized,
    "offsets beyond, digest right": overlapping,
    "an endless header": endless,
}


def read(place: Path) -> None:
    """All of it, as a run would."""
    bundle = Bundle(place)
    list(bundle.rows())
    for name in bundle.names():
        bundle.tensor(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--each", type=int, default=100)
    given = parser.parse_args()
    r = random.Random(given.seed)
    scratch = Path(tempfile.mkdtemp())
    whole = made(scratch / "whole")
    read(whole)
    print(f"Seed {given.seed}; {given.each} of each kind.\n")
    print("| damage | one clear error | reads all the same | anything else | most memory, MB |")
    print("| --- | --- | --- | --- | --- |")
    ok = True
    for kind, spoil in KINDS.items():
        row: Counter[str] = Counter()
        most = 0
        for n in range(given.each):
            place = scratch / "spoiled"
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(whole, place)
            spoil(place, r)
            tracemalloc.start()
            try:
                read(place)
                row["reads"] += 1
            except UnreadableRecord as error:
                row["error" if "\n" not in str(error) else "other"] += 1
            except BaseException as error:
                row["other"] += 1
                print(f"{kind} {n}: {type(error).__name__}: {error}", file=sys.stderr)
            most = max(most, tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        ok &= not row["other"] and not row["reads"] and most < MOST
        counts = f"{row['error']} | {row['reads']} | {row['other']} | {most / 1e6:.1f}"
        print(f"| {kind} | {counts} |", flush=True)
    lone = scratch / "lone.safetensors"
    shutil.copy(whole / TENSORS, lone)
    assert len(Tensors(lone).names()) == 40
    shutil.rmtree(scratch)
    raise SystemExit(0 if ok else 1)


if __name__ == "__main__":
    main()
