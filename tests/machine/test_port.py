"""The scan of a CUDA code base: what has to be looked at is found, plain use of torch is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reefwatch.api import machine
from reefwatch.core.finding import Verdict
from reefwatch.shell import cli

PLACES: tuple[tuple[str, str, str], ...] = (
    ("MACH101", "a.py", "gpu = torch.version.cuda is not None"),
    ("MACH101", "a.py", "if torch.version.cuda.startswith('12'):"),
    ("MACH102", "k.cu", "#define WARP_SIZE 32"),
    ("MACH102", "k.cu", "  int lane = threadIdx.x % 32;"),
    ("MACH102", "k.cuh", "  v += __shfl_xor_sync(0xffffffff, v, 16);"),
    ("MACH102", "k.cu", "  int warp = threadIdx.x >> 5;"),
    ("MACH103", "a.py", "torch.backends.cuda.matmul.allow_tf32 = True"),
    ("MACH103", "a.py", "torch.set_float32_matmul_precision('high')"),
    ("MACH103", "run.sh", "export NVIDIA_TF32_OVERRIDE=1"),
    ("MACH104", "setup.py", "from torch.utils.cpp_extension import BuildExtension, CUDAExtension"),
    ("MACH104", "k.cu", "int x;"),
    ("MACH104", "setup.py", "    extra_cuda_cflags=['-gencode', 'arch=compute_80']"),
    ("MACH105", "requirements.txt", "flash-attn==2.8.3"),
    ("MACH105", "requirements.txt", "cupy-cuda12x"),
    ("MACH105", "requirements-gpu.txt", "nvidia-cublas-cu12==12.1"),
    ("MACH105", "pyproject.toml", '    "xformers>=0.0.30",'),
    (
        "MACH105",
        "install.sh",
        "pip install torch --index-url https://download.pytorch.org/whl/cu121",
    ),
    ("MACH105", "environment.yml", "  - torch==2.4.0+cu121"),
    ("MACH106", "a.py", "subprocess.check_output(['nvidia-smi', '-L'])"),
    ("MACH106", "run.sh", "nvidia-smi --query-gpu=memory.used --format=csv"),
    ("MACH107", "a.py", "import cupy as cp"),
    ("MACH107", "a.py", "    from transformer_engine.pytorch import Linear"),
    ("MACH107", "a.py", "from numba import cuda"),
    ("MACH108", "a.py", "major, minor = torch.cuda.get_device_capability()"),
    ("MACH108", "run.sh", "export TORCH_CUDA_ARCH_LIST=8.0"),
    ("MACH109", "k.cu", '  asm volatile("mov.u32 %0, %laneid;" : "=r"(lane));'),
    ("MACH109", "k.cu", "#include <cutlass/gemm/device/gemm.h>"),
    ("MACH110", "Dockerfile", "FROM nvidia/cuda:12.4.1-devel-ubuntu22.04"),
    ("MACH110", "run.sh", "docker run --gpus all image"),
    ("MACH111", "a.py", "x = w.to(torch.float8_e4m3fn)"),
    ("MACH112", "a.py", "model.to('hip')"),
)
PLAIN = {
    "a.py": (
        'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
        "model.cuda().to('cuda:0')\n"
        'dist.init_process_group("nccl")\n'
        "if torch.version.hip or torch.cuda.is_bf16_supported():\n"
        "    with torch.autocast('cuda', dtype=torch.bfloat16):\n"
        "        pass\n"
        "# nvidia-smi shows the memory; allow_tf32 is off; torch.version.cuda is not asked\n"
        "batch = index % 32\n"
        "size = 32\n"
        "import cudatoolkit_stub_of_ours\n"
        "fnuz = torch.float8_e4m3fnuz\n"
    ),
    "k.hip": "int lane = threadIdx.x % warpSize;\nint half = n % 32;\n",
    "requirements.txt": "torch>=2.4\ntransformers\nbitsandbytes\naccelerate\n# flash-attn\n",
    "README.md": "Works with torch and accelerate.\n",
    "pyproject.toml": '[project]\nname = "ours"\ndependencies = ["torch>=2.4", "numpy"]\n',
}


def broken(folder: Path) -> dict[str, list[Any]]:
    report = machine.port(folder)
    assert all(o.verdict is not Verdict.ERRORED for o in report.outcomes)
    return {o.code: list(o.findings) for o in report.outcomes if o.findings}


@pytest.mark.parametrize(("code", "name", "line"), PLACES)
def test_a_place_is_found_with_what_to_do(code: str, name: str, line: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(f"\n\n{line}\n")
    found = broken(tmp_path)
    assert code in found
    places = [(Path(f.place.file).name, f.place.line) for f in found[code]]
    assert (name, 1 if line == "int x;" else 3) in places
    assert all(f.fix and f.why for f in found[code])


def test_plain_use_of_torch_is_nothing(tmp_path: Path) -> None:
    for name, text in PLAIN.items():
        (tmp_path / name).write_text(text)
    assert broken(tmp_path) == {}


def test_other_peoples_code_is_left_out(tmp_path: Path) -> None:
    for folder in (".git", "venv/lib/site-packages/x", "node_modules", "build"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.py").write_text("import pycuda\n")
    (tmp_path / "blob.py").write_bytes(b"\0\1import pycuda\n")
    (tmp_path / "loop.py").symlink_to("loop.py")
    (tmp_path / "folder.py").mkdir()
    assert broken(tmp_path) == {}


def test_many_hits_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = torch.version.cuda\n" * 1000)
    assert len(broken(tmp_path)["MACH101"]) == 200


def test_an_inline_silence_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    code = tmp_path / "src"
    code.mkdir()
    line = "v = torch.version.cuda  # reefwatch: ignore[MACH101] printed only\n"
    (code / "a.py").write_text(line)
    assert cli.main(["doctor", "--port", str(code)]) == 0
    assert "printed only" in capsys.readouterr().out
    (code / "a.py").write_text("v = torch.version.cuda\n")
    assert cli.main(["doctor", "--port", str(code)]) == 3
