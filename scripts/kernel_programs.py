"""Compile the survey kernels and keep the texts that tests run without Triton.

Usage: python scripts/kernel_programs.py (needs the `triton` wheel; no card). Debug sections and
comments are left out; the first line says what Triton does not put into the text.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE / "tests" / "kernels"))
OUT = HERE / "tests" / "data" / "kernels"

#: name -> (target, warps) pairs
KEPT = {
    "softmax_f32": [("gfx1100", 4), ("gfx1201", 4), ("gfx942", 4)],
    "matmul_f16": [("gfx1100", 4), ("gfx1201", 4), ("gfx942", 4)],
    "layer_norm_f32": [("gfx1100", 4)],
    "transpose_f16": [("gfx1100", 4)],
    "cumsum_f32": [("gfx1100", 4), ("gfx1201", 4), ("gfx942", 4)],
    "attention_f16": [("gfx1100", 4)],
    "sort_f32": [("gfx1100", 8)],
    "sum_f32": [("gfx1100", 4), ("gfx1201", 4), ("gfx942", 4)],
    "argmax_f32": [("gfx1100", 8), ("gfx942", 4)],
    "conv3x3_f16": [("gfx1100", 8)],
    "recurrence_f32": [("gfx1100", 8)],
    "histogram_i32": [("gfx1100", 4), ("gfx942", 4)],
    "rms_norm_bf16": [("gfx1100", 4)],
    "cross_entropy_f32": [("gfx1100", 4)],
    "dropout_f32": [("gfx1100", 4)],
    "divide_i32": [("gfx1100", 4), ("gfx1201", 4), ("gfx942", 4)],
    "gelu_bf16": [("gfx1100", 1), ("gfx942", 1)],
    "gather_f32": [("gfx1100", 4)],
    "matmul_i8": [("gfx1201", 4), ("gfx942", 4)],
}


def stripped(text: str, note: str) -> str:
    """The program without what no run needs."""
    lines, keep = [f"; {note}"], True
    for raw in text.split("\n"):
        line = raw.split(";", 1)[0].rstrip()
        word = line.strip()
        if word.startswith(".section"):
            keep = ".text" in word or ".rodata" in word
        elif word.startswith((".text", ".amdgpu_metadata")):
            keep = True
        local = re.match(r"^\.L(tmp|func|line)\w*:", word)
        if not keep or not word or local or word.startswith((".cfi", ".set", ".ident", ".addrsig")):
            continue
        if word.startswith(".file"):
            line = re.sub(r'"[^"]*/site-packages/', '"', re.sub(r'"/[^"]*tests/', '"tests/', line))
        lines.append(line)
        if word.startswith(".end_amdgpu_metadata"):
            break
    return "\n".join(lines) + "\n"


def main() -> int:
    import survey
    import triton

    OUT.mkdir(parents=True, exist_ok=True)
    for name, builds in KEPT.items():
        for target, warps in builds:
            built = survey.build(name, target, warps)
            note = f"shared: {built.metadata.shared} triton: {triton.__version__}"
            path = OUT / f"{name}.{target}.w{warps}.amdgcn"
            path.write_text(stripped(built.asm["amdgcn"], note))
            print(path.name, path.stat().st_size, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
