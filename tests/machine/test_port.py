"""The scan of a CUDA code base: what has to be looked at is found, plain use of torch is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reefwatch.api import machine
from reefwatch.core.finding import Verdict
from reefwatch.gather.machine.port import scan
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
    ("MACH101", "a.py", "v = getattr(torch.version, 'cuda', None)"),
    ("MACH101", "a.py", "if ready and torch.version.cuda: pass"),
    ("MACH102", "k.cu", "  unsigned b = __ballot_sync(0xffffffffu, v > 0);"),
    ("MACH102", "k.cu", "  __syncwarp(0xFFFFFFFF);"),
    ("MACH102", "k.cu", "constexpr int kWarpSize = 32;"),
    ("MACH102", "k.cu", "static constexpr auto WarpSize = 32;"),
    ("MACH102", "k.cu", "#define WARP 32"),
    ("MACH102", "k.cu", "enum { THREADS_PER_WARP = 32 };"),
    ("MACH102", "k.cu", "#define FULL_MASK 0xffffffff"),
    ("MACH102", "k.cu", "  int n = __popc(__ballot_sync(mask, keep));"),
    ("MACH102", "k.cu", "  uint32_t votes = __ballot_sync(mask, keep);"),
    ("MACH102", "k.cu", "  int lane = tid & 31;"),
    ("MACH102", "k.cu", "  int lane = linear & 0x1f;"),
    ("MACH102", "k.cu", "  const int warp_id = tid >> 5;"),
    ("MACH102", "k.cu", "  constexpr int warps = threads / 32;"),
    ("MACH102", "k.cu", "  for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(m, v, o);"),
    ("MACH102", "k.cu", "  for (int o = 32 / 2; o; o /= 2)"),
    ("MACH102", "k.cu", "  int lane_id = threadIdx.x & (32 - 1);"),
    ("MACH102", "k.cu", "__global__ void k() { const unsigned full = 0xffffffffu; }"),
    ("MACH102", "k.cu", "__device__ int f() { unsigned mask = 0xffffffff; return 0; }"),
    ("MACH102", "k.cu", "  using Reduce = cub::WarpReduce<float, 32>;"),
    ("MACH102", "a.py", "WARP_SIZE = 32"),
    ("MACH102", "a.py", "WARP = tl.constexpr(32)"),
    ("MACH102", "a.py", "def launch(x, warp_size=32): pass"),
    ("MACH102", "a.py", "threads = num_warps * 32"),
    ("MACH102", "a.py", "k = load('__global__ void k(){ int lane = threadIdx.x & 31; }')"),
    ("MACH103", "a.py", "torch.backends.cudnn.conv.fp32_precision = 'tf32'"),
    ("MACH103", "k.cpp", "at::globalContext().setAllowTF32CuBLAS(allowTF32CuBLAS);"),
    ("MACH104", "CMakeLists.txt", "project(ours LANGUAGES CXX CUDA)"),
    ("MACH105", "setup.py", "setup(install_requires=['flash-attn>=2', 'torch'])"),
    ("MACH105", "Dockerfile", "RUN pip install --no-cache-dir xformers==0.0.30"),
    ("MACH106", "a.py", "os.system('nvidia-smi --query-gpu=name --format=csv')"),
    ("MACH106", "Dockerfile", "RUN nvidia-smi"),
    ("MACH107", "a.py", "import torch, cupy"),
    ("MACH107", "a.py", "from cuda.bindings import driver"),
    ("MACH108", "k.cu", "#if __CUDA_ARCH__ >= 800"),
    ("MACH108", "a.py", "flags = ['arch=compute_90a,code=sm_90a']"),
    ("MACH109", "k.cu", "#include <cuda/std/cassert>"),
    (
        "MACH109",
        "a.py",
        "y = tl.inline_asm_elementwise('tanh.approx.f32 $0, $1;', '=r,r', [x], tl.float32)",
    ),
    ("MACH107", "a.py", "rt = ctypes.CDLL('libcudart.so')"),
    ("MACH107", "a.py", "rt = ctypes.cdll.LoadLibrary('/usr/local/cuda/lib64/libcudart.so.12')"),
    ("MACH107", "a.py", "path = ctypes.util.find_library('cudart')"),
    ("MACH107", "a.py", "lib = CDLL(f'{root}/libcuda.so.1')"),
    ("MACH107", "k.cpp", '  void* h = dlopen("libcuda.so.1", RTLD_NOW);'),
    ("MACH106", "a.py", "nvml = ctypes.CDLL('libnvidia-ml.so.1')"),
    ("MACH104", "a.py", "home = os.environ['CUDA_HOME']"),
    ("MACH104", "a.py", "home = os.environ.get('CUDA_HOME') or os.getenv('CUDA_PATH')"),
    ("MACH104", "CMakeLists.txt", "set(ROOT $ENV{CUDA_HOME})"),
    ("MACH104", "k.cpp", '  auto home = std::getenv("CUDA_HOME");'),
    ("MACH109", "k.cpp", "#include <cusparseLt.h>"),
    ("MACH109", "k.cpp", "  cusparseLtInit(&handle);"),
    ("MACH109", "a.py", "y = torch._cslt_sparse_mm(packed, x)"),
    ("MACH109", "a.py", "from torch.sparse import SparseSemiStructuredTensorCUSPARSELT as S; S()"),
    ("MACH102", "k.cu", "constexpr unsigned kMask = 0xffffffff; __global__ void k() {}"),
    (
        "MACH102",
        "k.cu",
        "#define EVERYONE 0xffffffffu\nfloat f() { return __shfl_sync(EVERYONE, v, 0); }",
    ),
    ("MACH102", "k.cu", "constexpr uint32_t kEvery{0xFFFFFFFF}; auto v = __any_sync(kEvery, x);"),
    ("MACH102", "k.cu", "const auto all = UINT32_MAX; void f() { __syncwarp(all); }"),
    ("MACH102", "k.cu", "  v += __shfl_xor_sync(UINT32_MAX, v, 16);"),
    ("MACH102", "k.cu", "  v += __shfl_xor_sync((unsigned)-1, v, 16);"),
    ("MACH102", "k.cu", "  if ((threadIdx.x & 31) == 0) out[0] = __ballot_sync(m, v);"),
    ("MACH108", "a.py", "flag = '-arch=sm_80'"),
    ("MACH110", "a.py", "subprocess.run(['docker', 'run', '--gpus', 'all', image])"),
)
GUARDED = {
    "either": "gpu = torch.version.cuda or torch.version.hip\n",
    "both told": "cuda, hip = torch.version.cuda, torch.version.hip\n",
    "a test for ROCm": "if IS_ROCM:\n    x = 1\nelse:\n    v = torch.version.cuda\n",
    "left before": "def f():\n    if is_hip():\n        return 64\n    WARP_SIZE = 32\n",
    "a choice": "w = 64 if torch.version.hip else get_device_capability()[0]\n",
    "try": "try:\n    import pynvml\n    pynvml.nvmlInit()\nexcept ImportError:\n    pass\n",
    "try of any": "try:\n    from apex import amp\nexcept Exception as e:\n    amp = None\n",
    "suppress": "with contextlib.suppress(ImportError):\n    import cupy\n",
    "if": "if is_flash_attn_available():\n    from flash_attn import flash_attn_func\n",
    "used if there": (
        "try:\n    import pynvml\nexcept ImportError:\n    pynvml = None\n"
        "def clocks():\n    return pynvml.nvmlDeviceGetClock(0) if pynvml else None\n"
    ),
    "for type checkers": "if TYPE_CHECKING:\n    import tensorrt\n",
    "two of a kind": (
        "def is_cuda():\n    return torch.version.cuda is not None\n"
        "def is_hip():\n    return torch.version.hip is not None\n"
    ),
    "asked of the platform": (
        "def f():\n    if not current_platform.is_cuda():\n        return 0\n"
        "    pynvml.nvmlInit()\n"
    ),
    "loaded if there": (
        "try:\n    rt = ctypes.CDLL('libcudart.so')\nexcept OSError:\n    rt = None\n"
    ),
    "FNUZ too": "ok = x.dtype in (torch.float8_e4m3fn, torch.float8_e4m3fnuz)\n",
}
"""Python that has looked at the place already."""
ON_NVIDIA = {
    "left where there is no CUDA": (
        "import torch\n"
        "def power():\n    if not torch.version.cuda:\n        return None\n"
        "    import pynvml\n    pynvml.nvmlInit()\n"
        "    return pynvml.nvmlDeviceGetPowerUsage(0)\n"
    ),
    "left, one of two": (
        "def f():\n    if not ready or torch.version.cuda is None:\n        return\n"
        "    import cupy\n"
    ),
    "the other side": (
        "def f():\n    if torch.version.cuda is None:\n        pass\n    else:\n"
        "        pynvml.nvmlInit()\n"
    ),
}
"""Python that comes to the place on NVIDIA alone, by a test that is told of itself (MACH101)."""
WORDS = {
    "a.py": (
        '"""Run nvidia-smi and look at torch.version.cuda; import pycuda."""\n'
        'd = "torch.version.cuda is in a string"\n'
        "# if torch.version.cuda: import cupy\n"
        'print(f"CUDA {torch.version.cuda}")\n'
        'img = load("compute_80.png"), "runs/sm_90/model.pt", "sm_80-results", "my.sm_80.csv"\n'
        'NAMES = "libcudart is what CUDA_HOME leads to"\n'
        'raise RuntimeError("this needs sm_80, see nvidia-smi")\n'
        'parser.add_argument("--gpus", help="see nvidia-smi; TORCH_CUDA_ARCH_LIST")\n'
        "torch.backends.cuda.matmul.allow_tf32 = False\n"
        'torch.set_float32_matmul_precision("highest")\n'
        "allow_tf32 = fast and True\n"
        "tile = x.shape[0] // 32\n"
        "from .cuda import stream\n"
    ),
    "tile.cpp": (
        "__global__ void t(float* a) {\n  __shared__ float s[32][33];\n"
        "  s[threadIdx.y][threadIdx.x & 31] = a[threadIdx.x % 32];\n  __syncthreads();\n"
        "  unsigned white = 0xffffffff; int minus{-1}; f(UINT32_MAX);\n}\n"
    ),
    "k.cu.txt": "int lane = threadIdx.x % 32;\n",
    "k.cpp": (
        "// lane % 32, __shfl_sync(0xffffffff, v, 0)\n"
        '/* #define WARP_SIZE 32\n   asm volatile("mov.u32") */\n'
        'const char* s = "int lane = threadIdx.x % 32;";\n'
        "#ifdef USE_ROCM\n#define WARP_SIZE 64\n#else\n#define WARP_SIZE 32\n#endif\n"
        '__asm__ volatile("cpuid" : "=a"(a) : "a"(0));\n'
        "int kNumWarps = 32; int tile = n / 32; unsigned white = 0xffffffff, mask = 0xffffffff;\n"
    ),
    "run.sh": (
        "# nvidia-smi\npython train.py --gpus 4\n"
        "if command -v nvidia-smi >/dev/null; then\n  nvidia-smi -L\nfi\n"
    ),
    "README.md": "pip install flash-attn; docker run --gpus all nvidia/cuda:12.1-devel\n",
    "pyproject.toml": (
        '[project]\nname = "flash-attn"\ndependencies = ["torch"]\n'
        '[project.optional-dependencies]\ncuda = ["xformers", "cupy-cuda12x"]\n'
    ),
    "setup.py": 'PACKAGE = "xformers"\nsetup(name=PACKAGE, packages=["xformers"])\n',
}
"""Words of CUDA that ask for nothing."""
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


@pytest.mark.parametrize("case", sorted(GUARDED))
def test_what_was_looked_at_is_nothing(case: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(GUARDED[case])
    assert broken(tmp_path) == {}
    assert scan.scan(tmp_path).guarded


@pytest.mark.parametrize("case", sorted(ON_NVIDIA))
def test_what_nvidia_alone_comes_to_is_nothing(case: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(ON_NVIDIA[case])
    assert set(broken(tmp_path)) == {"MACH101"}


@pytest.mark.parametrize("case", sorted(ON_NVIDIA))
def test_on_the_other_side_of_the_test_it_is_told(case: str, tmp_path: Path) -> None:
    turned = ON_NVIDIA[case].replace("not torch", "torch").replace("is None", "is not None")
    (tmp_path / "a.py").write_text(turned)
    assert set(broken(tmp_path)) > {"MACH101"}


@pytest.mark.parametrize("name", sorted(WORDS))
def test_words_that_ask_for_nothing(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(WORDS[name])
    assert broken(tmp_path) == {}


def test_a_module_of_the_code_base_itself_is_no_import_of_cuda(tmp_path: Path) -> None:
    (tmp_path / "flash_attn").mkdir()
    (tmp_path / "flash_attn/__init__.py").write_text("")
    (tmp_path / "flash_attn_interface.py").write_text("")
    (tmp_path / "a.py").write_text("import flash_attn\nimport flash_attn_interface\nimport cupy\n")
    (found,) = broken(tmp_path)["MACH107"]
    assert found.place.line == 3


def test_a_copy_of_cutlass_is_one_place(tmp_path: Path) -> None:
    folder = tmp_path / "csrc/cutlass/include/cutlass"
    folder.mkdir(parents=True)
    (folder / "cutlass.h").write_text("#include <cute/tensor.hpp>\n")
    (found,) = broken(tmp_path)["MACH109"]
    assert "CUTLASS" in found.message


def test_a_notebook_is_read_by_its_cells(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["nvidia-smi, torch.version.cuda\n"]},
        {"cell_type": "code", "source": ["%time\n", "!nvidia-smi\n", "import torch\n",
                                         "v = torch.version.cuda.split('.')"]},
    ]  # fmt: skip
    text = json.dumps({"cells": cells}, indent=1)
    (tmp_path / "a.ipynb").write_text(text)
    found = broken(tmp_path)
    assert sorted(found) == ["MACH101", "MACH106"]
    line = found["MACH101"][0].place.line
    assert "torch.version.cuda.split" in text.splitlines()[line - 1]


def test_what_no_python_reads_is_read_by_its_lines(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print 'two'\nimport cupy\nv = torch.version.cuda\n")
    (tmp_path / "deep.py").write_text("x = " + "-" * 20000 + "1\n" + "import cupy\n")
    (tmp_path / "a.ipynb").write_text('{"cells": [1, {"cell_type": "code"}]}')
    found = broken(tmp_path)
    assert [f.place.line for f in found["MACH101"]] == [3]
    assert len(found["MACH107"]) == 2


_WORD = st.sampled_from(
    [
        *("torch.version.cuda", "import cupy", "if ", "try:", "#if", "#endif", "\n", "    ", '"'),
        *("'", "(", "/*", "//", "\\", "asm(", "__shfl_sync(", "0xffffffff", "lane % 32", "{"),
        *("}", "\0", "\u2028", "x = "),
    ]
)


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(st.lists(_WORD | st.text(max_size=6), max_size=40).map("".join))
def test_no_text_is_too_odd(text: str) -> None:
    for name in ("a.py", "a.ipynb", "a.cu", "a.sh", "requirements.txt", "pyproject.toml"):
        for place in scan.places(Path(name), text, frozenset()):
            assert 1 <= place.line <= text.count("\n") + 1 + len(text.splitlines())
    cell = json.dumps({"cells": [{"cell_type": "code", "source": text}]})
    assert all(place.line == 1 for place in scan.places(Path("a.ipynb"), cell, frozenset()))


def test_other_peoples_code_is_left_out(tmp_path: Path) -> None:
    for folder in (".git", "venv/lib/site-packages/x", "node_modules", "build"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.py").write_text("import pycuda\n")
    (tmp_path / "blob.py").write_bytes(b"\0\1import pycuda\n")
    (tmp_path / "loop.py").symlink_to("loop.py")
    (tmp_path / "folder.py").mkdir()
    assert broken(tmp_path) == {}


def test_nothing_is_held_of_what_holds_no_code(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("torch.version.cuda\n")
    (tmp_path / "data.csv").write_text("1,2\n")
    for place in (tmp_path, tmp_path / "README.md"):
        report = machine.port(place)
        assert {o.verdict for o in report.outcomes} == {Verdict.UNPROVEN}
        assert "no code" in report.outcomes[0].reason
        assert cli.main(["doctor", "--port", str(place)]) == 0
        assert cli.main(["doctor", "--port", str(place), "--require-proof"]) == 4


@pytest.mark.parametrize("kind", ["bytes", "link", "large"])
def test_nothing_is_held_beside_a_file_that_was_not_read(kind: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = torch.version.cuda\n")
    odd = tmp_path / "odd.py"
    if kind == "link":
        odd.symlink_to("nowhere")
    else:
        odd.write_bytes(b"\0" if kind == "bytes" else b"x = 1\n" * (1 << 19))
    verdicts = {o.code: o for o in machine.port(tmp_path).outcomes}
    assert verdicts.pop("MACH101").verdict is Verdict.BROKEN
    assert {o.verdict for o in verdicts.values()} == {Verdict.UNPROVEN}
    assert all("odd.py" in o.reason for o in verdicts.values())


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_encoding_and_line_end_is_read(encoding: str, end: str, tmp_path: Path) -> None:
    text = end.join(["# é", "import cupy", "v = torch.version.cuda", ""])
    (tmp_path / "a.py").write_bytes(text.encode(encoding))
    found = broken(tmp_path)
    assert [f.place.line for f in found["MACH107"]] == [2]
    assert [f.place.line for f in found["MACH101"]] == [3]


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
