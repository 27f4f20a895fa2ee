"""The bars of the code-object scan: real wheels from PyPI, and files damaged at random.

A wheel is read as it is and unpacked; both must tell the same. A Zstandard decoder of the reference
library, where it is installed, is the judge of the own one. Wheels are deleted at the end.

    python scripts/verify/machine_scan.py [--files N] [--wheels A,B]
"""

from __future__ import annotations

import argparse
import io
import random
import struct
import subprocess
import sys
import tempfile
import time
import tracemalloc
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from reefwatch.data import targets
from reefwatch.gather.machine.code_objects import zstd
from reefwatch.gather.machine.code_objects.parts import parts
from reefwatch.gather.machine.code_objects.scan import Scan, scan
from reefwatch.gather.machine.code_objects.window import StreamWindow
from tests.machine import bundles

WHEELS = (
    "bitsandbytes==0.50.2",
    "jax-rocm7-plugin==0.12.0",
    "jax-rocm10-plugin==0.12.0",
    "cupy-rocm-7-0==14.2.0",
    "cupy-rocm-5-0==13.3.0",
    "cyllama-rocm==0.7.0",
    "mojolearn-amd==0.8.62",
)
LARGEST = 32 << 20
"""Bytes that looking at one damaged file may take."""


def fetch(spec: str, folder: Path) -> Path | None:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "--only-binary=:all:"]
    command += ["--python-version", "3.12", "-d", str(folder), spec]
    print(f"fetching {spec}", file=sys.stderr, flush=True)
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    found = list(folder.glob("*.whl"))
    return found[0] if done.returncode == 0 and found else None


def wheel(spec: str) -> tuple[str, bool]:
    with tempfile.TemporaryDirectory() as made:
        path = fetch(spec, Path(made))
        if path is None:
            return f"| {spec} | could not be fetched | | | | | no |", False
        begun = time.process_time()
        packed = scan(str(path))
        seconds = time.process_time() - begun
        with zipfile.ZipFile(path) as archive:
            archive.extractall(Path(made) / "x")
        unpacked = scan(str(Path(made) / "x"))
        same = by_path(packed) == by_path(unpacked) and not packed.unread
        agreed, bundles_ = reference(Path(made) / "x", packed)
        dark = sum(bool(code.unknown) for code in packed.codes)
        amd = {n for c in packed.codes for n in c.targets if targets.is_amd(n)}
        sm = {n for c in packed.codes for n in c.targets if n.startswith("sm_")}
        met = same and agreed is not False and not dark and bool(amd)
        judge = {
            True: f"{bundles_} agree" if bundles_ else "none packed so",
            False: "DIFFERS",
            None: "not installed",
        }[agreed]
        row = [
            spec,
            f"{len(packed.codes)} of {packed.looked}",
            f"{len(amd)} AMD, {len(sm)} NVIDIA",
            "yes" if same else "NO",
            judge,
            f"{seconds:.2f}",
            "yes" if met else "NO",
        ]
        return f"| {' | '.join(row)} |", met


def by_path(made: Scan) -> dict[str, tuple[int, dict[str, int]]]:
    return {code.path: (code.parts, code.targets) for code in made.codes}


def reference(folder: Path, made: Scan) -> tuple[bool | None, int]:
    """Whether the reference decoder unpacks every CCOB bundle to the same first 32 KiB."""
    try:
        import zstandard
    except ImportError:
        return None, 0
    count = 0
    for code in made.codes:
        raw = (folder / code.path).read_bytes()
        at = raw.find(b"CCOB")
        while at >= 0:
            version, method = struct.unpack_from("<HH", raw, at + 4)
            start = at + {1: 20, 2: 24, 3: 32}.get(version, 0)
            if method == 1 and raw[start : start + 4] == zstd.MAGIC:
                with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(raw[start:])) as reader:
                    if reader.read(1 << 15) != zstd.prefix(raw[start : start + (1 << 18)], 1 << 15):
                        return False, count
                count += 1
            at = raw.find(b"CCOB", at + 4)
    return True, count


def damaged(count: int, seed: int) -> tuple[str, bool]:
    dice = random.Random(seed)
    frame = (Path(bundles.__file__).parents[1] / "data/code_objects/bundle-3.zst").read_bytes()
    seeds = [
        bundles.bundle(["gfx90a", "gfx1100"]),
        *(bundles.compressed(bundles.bundle(["gfx1100"]), version) for version in (1, 2, 3)),
        bundles.compressed(bundles.TEXTS["bundle"], 3, frame),
        bundles.fatbin((2, 80), (1, 80)),
        bundles.shared_object({".hip_fatbin": bundles.bundle(["gfx1100"])}),
        bundles.code_object(0x41),
    ]
    crashes, most = [], 0
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "damaged.so"
        for number in range(count):
            raw = bytearray(dice.choice(seeds))
            for _ in range(dice.randrange(1, 6)):
                at = dice.randrange(min(len(raw), 700))
                size = dice.choice((1, 2, 4, 8))
                value = dice.choice((0, 1, 1 << 31, (1 << 63) - 1, dice.getrandbits(64)))
                raw[at : at + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
            cut = bytes(raw[: dice.randrange(1, len(raw) + 1)] if dice.random() < 0.5 else raw)
            path.write_bytes(cut)
            tracemalloc.start()
            try:
                scan(str(path))
                list(parts(StreamWindow(io.BytesIO(cut), len(cut)), bool(number % 2)))
            except Exception as error:
                crashes.append(f"{type(error).__name__}: {error}")
            most = max(most, tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    met = not crashes and most < LARGEST
    told = "; ".join(dict.fromkeys(crashes))[:200] or "0"
    return f"| {count} | {seed} | {told} | {most / (1 << 20):.1f} | {'yes' if met else 'NO'} |", met


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--wheels", default=",".join(WHEELS))
    given = parser.parse_args(argv)
    print("## Code-object scan\n")
    print("| wheel | files with GPU code | targets | as unpacked | zstd of the library | s | met |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    rows = [wheel(spec) for spec in given.wheels.split(",") if spec]
    print("\n".join(row for row, _ in rows), flush=True)
    print(f"\ndamaging {given.files} files", file=sys.stderr, flush=True)
    row, met = damaged(given.files, given.seed)
    print("\n| damaged files | seed | crashes | most memory, MiB | met |")
    print("| --- | --- | --- | --- | --- |")
    print(row)
    return 0 if met and all(ok for _, ok in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
