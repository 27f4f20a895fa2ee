"""Public and injected silent bugs of torch.compile under plain `reefwatch run CASE.py`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "data" / "compile"
BY_DESIGN = (
    "nat_185337_cast_elision",
    "nat_186875_remainder_scalar",
    "v_rounding",
    "v_wrap",
)
"""Compiled code is nearer to float64 than the original: found with --strict-casts alone."""
OPS = {
    "inj_alpha_dropped": "mul softmax matmul",
    "inj_buffer_update_lost": "batch_norm",
    "inj_cumsum_exclusive": "cumsum",
    "inj_embedding_shift": "embedding",
    "inj_eps_scaled": "group_norm",
    "inj_index_put_overwrite": "getitem",
    "inj_maximum_tail": "maximum",
    "inj_square_bias_broadcast": "add",
    "inj_sum_drops_last": "sum",
    "inj_sum_fp16_accumulate": "sum",
    "inj_tanh_backward": "tanh",
    "inj_variance_correction": "layer_norm",
    "v_scale_lost": "mul log_softmax",
    "v_statistics_lost": "batch_norm",
    "v_running_total": "cumsum",
    "v_last_word": "embedding",
    "v_epsilon": "add",
    "v_gather_gradient": "getitem",
    "v_larger": "maximum",
    "v_bias_axis": "add",
    "v_short_sum": "sum",
    "v_coarse_sum": "sum",
    "v_slope": "tanh",
    "v_unbiased": "layer_norm",
}
"""The op of the program that the fault of an injected case is in."""


def run(path: Path, *options: str) -> dict[str, Any]:
    """Exit code, what the script printed, mismatches and codes of one case."""
    environ = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    environ["PYTHONPATH"] = str(ROOT / "src")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-W", "ignore", "-m", "reefwatch", "run", "--quiet", "--out"]
        command += [folder, *options, str(path)]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environ, cwd=path.parent, check=False
        )
        lines = (Path(folder) / "rank0.jsonl").read_text().splitlines()
        report = json.loads((Path(folder) / "report.json").read_text())
        rows = {}
        for line in map(json.loads, lines):
            if line.get("event") == "compile.mismatch":
                rows[line["id"]] = line["data"]
        row = next(iter(rows.values()), {})
        alone = _alone(path, row) if row.get("repro") else ""
    codes = [o["code"] for o in report["outcomes"] if o["verdict"] == "broken"]
    return {
        "exit": done.returncode,
        "printed": done.stdout.strip().splitlines()[-1:],
        "row": row,
        "codes": [code for code in codes if code in CODES],
        "alone": alone,
    }


CODES = ("COMP001", "COMP002", "COMP003", "COMP004", "COMP005")


def _alone(path: Path, row: dict[str, Any]) -> str:
    """What the repro prints; with the case's own fault planted, where it has one."""
    code = "import sys, runpy\n"
    if path.stem.startswith("inj"):
        code += f"import importlib; importlib.import_module({path.stem!r}).arm()\n"
    elif path.stem.startswith("v_"):
        code += "import contextlib, io\n"
        code += f"with contextlib.redirect_stdout(io.StringIO()): import {path.stem}\n"
    code += f"runpy.run_path({row['repro']!r}, run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        cwd=path.parent,
        check=False,
    )
    return (done.stdout.strip().splitlines() or ["an error"])[-1]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--locate", default="100s")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=7200)
    parser.add_argument("--part", default="0/1", help="every n-th case, from the k-th on: k/n")
    given = parser.parse_args()
    part, of = map(int, given.part.split("/"))
    began, bad, tried = time.monotonic(), 0, 0
    paths = sorted(CASES.glob("[in]*_*.py")) + sorted((CASES / "variants").glob("v_*.py"))
    print("### Silent bugs under plain `reefwatch run CASE.py`\n")
    print("| case | script | exit | codes | stage | op | repro | |\n" + "| --- " * 8 + "|")
    for path in [p for p in paths if given.only in p.stem][part::of]:
        if time.monotonic() - began > given.seconds:
            print(f"| {path.stem} | not tried: out of time | | | | | | |")
            bad += 1
            continue
        tried += 1
        at = time.monotonic()
        strict = path.stem in BY_DESIGN
        got = run(path, "--locate", given.locate, *(["--strict-casts"] if strict else []))
        wrong = got["printed"] == ["WRONG"]
        row, want = got["row"], OPS.get(path.stem, "")
        fine = (got["exit"] == 3 and bool(got["codes"])) if wrong else not got["codes"]
        ops = row.get("ops", [])
        if want and wrong:
            fine = fine and row.get("stage") == "inductor" and _named(want, ops)
            fine = fine and got["alone"] == "WRONG"
        bad += not fine
        print(
            f"| {path.stem}{' (strict casts)' if strict else ''} | {' '.join(got['printed'])} | "
            f"{got['exit']} | {' '.join(got['codes'])} | {row.get('stage', '')} | "
            f"{' '.join(ops)} | {got['alone']} | {'' if fine else 'NOT MET'} |",
            flush=True,
        )
        print(f"{path.stem} {time.monotonic() - at:.0f} s", file=sys.stderr, flush=True)
    print(f"\n{tried} cases, {bad} not as they should be.")
    return int(bad > 0)


def _named(want: str, ops: list[str]) -> bool:
    """True when the op at fault is in a window of at most three."""
    plain = {op.strip("_") for op in ops}
    return len(ops) <= 3 and bool(plain & set(want.split()))


if __name__ == "__main__":
    sys.exit(main())
