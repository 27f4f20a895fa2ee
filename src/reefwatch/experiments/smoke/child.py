"""Run in a child process by its path: `child.py FD about`, or `child.py FD DEVICE TEST...`.

Stands alone, so that nothing of Reefwatch is loaded beside what is tested. Answers are JSON lines
on the descriptor FD; whatever the libraries print goes elsewhere.

Bounds are coarse: a wrong kernel is off by the size of its result, not by its rounding.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

TALL = 9_530_399
"""Rows of a product of which 93% came out as zeros on gfx1201: ROCm/rocm-libraries issue 8645."""
ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
LIBRARIES = ("libamdhip64", "librocblas", "libMIOpen", "libhipblaslt", "libhsa-runtime64")


class Skipped(Exception):
    """A test that this machine cannot run, and why."""


class Wrong(Exception):
    """Numbers that are not what they must be."""


def about(torch: Any) -> dict[str, Any]:
    """Devices, targets of the build, and the ROCm libraries that are mapped, by folder."""
    devices = []
    for number in range(torch.cuda.device_count()):
        props = torch.cuda.get_device_properties(number)
        devices.append({"name": str(props.name), "arch": str(getattr(props, "gcnArchName", ""))})
    mapped: dict[str, list[str]] = {}
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        paths = {line.split(maxsplit=5)[-1].strip() for line in maps if "/" in line}
    for path in sorted(paths):
        folder, _, name = path.rpartition("/")
        if name.startswith(LIBRARIES):
            places = mapped.setdefault(name.split(".so")[0] + ".so", [])
            if folder not in places:
                places.append(folder)
    listed = torch.cuda.get_arch_list() if torch.version.hip else []
    return {"devices": devices, "arch_list": listed, "mapped": mapped}


def test_sum(torch: Any, device: str) -> str:
    """A sum of 2**20 ones, exact in each dtype's accumulation."""
    for dtype in (torch.float32, torch.float64, torch.int64, torch.bfloat16):
        total = float(torch.ones(1 << 20, device=device, dtype=dtype).sum().item())
        if total != float(1 << 20):
            raise Wrong(f"{_name(dtype)}: {total:.0f} of {1 << 20}")
    return ""


def test_gemm(torch: Any, device: str) -> str:
    """Products in three dtypes against f64: error per entry, over |A| |B|.

    Higham, Accuracy and Stability of Numerical Algorithms, section 3.5.
    """
    made = torch.Generator().manual_seed(0)
    for name in ("float32", "float16", "bfloat16"):
        dtype = getattr(torch, name)
        for rows, inner, columns in ((256, 384, 192), (1, 1000, 7), (2048, 16, 16)):
            a = torch.randn(rows, inner, generator=made).to(dtype)
            b = torch.randn(inner, columns, generator=made).to(dtype)
            got = (a.to(device) @ b.to(device)).cpu().double()
            wanted = a.double() @ b.double()
            size = a.double().abs() @ b.double().abs()
            unit = _unit(torch, name, device)
            worst = float(((got - wanted).abs() / size).max())
            bound = unit * (inner + 2) if name == "float32" else unit * 8
            if not worst <= max(bound, unit * 8):
                raise Wrong(
                    f"{name} {rows}x{inner}x{columns}: error {worst:.2g}, bound {bound:.2g}"
                )
    return ""


def test_tall(torch: Any, device: str) -> str:
    """Ones times the unit matrix has a one in each place, however tall."""
    on_gpu = device != "cpu"
    if on_gpu and torch.cuda.mem_get_info(device)[0] < 1 << 30:
        raise Skipped("less than 1 GiB of the card's memory is free")
    rows = TALL if on_gpu else TALL // 8
    for dtype, count, narrow in ((torch.float32, rows, 4), (torch.float64, rows // 4, 16)):
        ones = torch.ones(count, narrow, device=device, dtype=dtype)
        got = ones @ torch.eye(narrow, device=device, dtype=dtype)
        off = int((got != 1).sum().item())
        if off:
            raise Wrong(f"{_name(dtype)} {count}x{narrow}: {off / got.numel():.0%} are not 1")
    return ""


def test_conv(torch: Any, device: str) -> str:
    """Convolution and batch norm, forward and backward, against f64 on the processor."""
    made = torch.Generator().manual_seed(0)
    images = torch.randn(4, 8, 17, 19, generator=made)
    weight = torch.randn(16, 8, 3, 3, generator=made) / 8
    far = torch.randn(4, 16, 17, 19, generator=made)

    def step(place: str, dtype: Any) -> tuple[Any, Any]:
        w = weight.to(place, dtype).requires_grad_()
        x = torch.nn.functional.conv2d(images.to(place, dtype), w, padding=1)
        y = torch.nn.functional.batch_norm(x, None, None, training=True)
        (y * far.to(place, dtype)).sum().backward()
        return y.detach().cpu().double(), w.grad.cpu().double()

    wanted = step("cpu", torch.float64)
    for name in ("float32", "float16", "bfloat16") if device != "cpu" else ("float32",):
        got = step(device, getattr(torch, name))
        bound = 64 * max(_unit(torch, name, device), ROUNDOFF["float16"] / 16)
        for part, one, other in zip(("output", "weight gradient"), got, wanted, strict=True):
            error = float((one - other).norm() / other.norm())
            if not error <= bound:
                raise Wrong(f"{name} {part}: error {error:.2g}, bound {bound:.2g}")
    return ""


def test_attention(torch: Any, device: str) -> str:
    """Each backend against f64, over head sizes that went wrong somewhere."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    attend = torch.nn.functional.scaled_dot_product_attention
    made = torch.Generator().manual_seed(0)
    ran: set[str] = set()
    backends = {name: value for name, value in SDPBackend.__members__.items()
                if name not in ("ERROR", "OVERRIDEABLE")}  # fmt: skip
    for size in (8, 64, 72, 128):
        q, k, v = (torch.randn(2, 3, 77, size, generator=made) for _ in range(3))
        for kind in ("float16", "bfloat16"):
            dtype = getattr(torch, kind)
            rounded = [one.to(dtype) for one in (q, k, v)]
            wanted = attend(*(one.double() for one in rounded), is_causal=True)
            for name, backend in backends.items():
                try:
                    with sdpa_kernel(backend):
                        got = attend(*(one.to(device) for one in rounded), is_causal=True)
                except RuntimeError as error:
                    if "vailable kernel" in str(error) or "viable backend" in str(error).lower():
                        continue
                    raise
                ran.add(name.split("_")[0].lower())
                worst = float((got.cpu().double() - wanted).abs().max())
                if not worst <= 64 * ROUNDOFF[kind]:
                    raise Wrong(f"{name} {kind}, head size {size}: error {worst:.2g}")
    return f"backends that ran: {', '.join(sorted(ran)) or 'none'}"


def test_compile(torch: Any, device: str) -> str:
    """A function of a few operations, with and without torch.compile."""

    def small(x: Any) -> Any:
        return (torch.relu(x.sin() * 2 + x) @ x.t()).softmax(-1).sum(0)

    x = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)).to(device)
    got, wanted = torch.compile(small)(x), small(x)
    error = float((got - wanted).abs().max().item())
    if not error <= 1e-2:
        raise Wrong(f"error {error:.2g}")
    return ""


def test_triton(torch: Any, device: str) -> str:
    """A kernel that adds two vectors."""
    if device == "cpu":
        raise Skipped("Triton needs a GPU")
    try:
        import triton  # type: ignore[import-not-found, unused-ignore]
        import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise Skipped(f"Triton cannot be imported ({error})") from None
    globals()["tl"] = tl

    def add(x, y, out, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)

    with torch.cuda.device(device):
        x = torch.arange(1000, device=device, dtype=torch.float32)
        out = torch.zeros_like(x)
        triton.jit(add)[(8,)](x, x, out, 1000, BLOCK=128)
        off = int((out != 2 * x).sum().item())
    if off:
        raise Wrong(f"{off} of 1000 are wrong")
    return ""


def test_copies(torch: Any, device: str) -> str:
    """From this device to each other and back."""
    count = torch.cuda.device_count() if device != "cpu" else 0
    if count < 2:
        raise Skipped("there is one device")
    sent = torch.randn(1 << 18, generator=torch.Generator().manual_seed(0))
    for number in range(count):
        if f"cuda:{number}" == device:
            continue
        back = sent.to(device).to(f"cuda:{number}").to(device).cpu()
        if not torch.equal(back, sent):
            off = int((back != sent).sum().item())
            raise Wrong(f"{device} to cuda:{number} and back: {off} of {sent.numel()} differ")
    return ""


def _unit(torch: Any, name: str, device: str) -> float:
    """The unit roundoff of products: TF32 has that of f16."""
    tf32 = device != "cpu" and name == "float32" and (
        torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32
    )  # fmt: skip
    return ROUNDOFF["float16"] if tf32 else ROUNDOFF[name]


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def one(torch: Any, name: str, device: str) -> dict[str, Any]:
    """Run one test; what became of it."""
    begun = time.monotonic()
    state, detail = "ok", ""
    try:
        detail = globals()[f"test_{name}"](torch, device)
        if device != "cpu":
            torch.cuda.synchronize(device)
    except Skipped as why:
        state, detail = "skipped", str(why)
    except Wrong as what:
        state, detail = "wrong", str(what)
    except Exception as error:
        state, detail = "error", f"{type(error).__name__}: {_first(str(error))}"
    return {"test": name, "state": state, "detail": detail, "seconds": time.monotonic() - begun}


def _first(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:300]


def main(argv: list[str]) -> int:
    into = int(argv[0])
    os.set_inheritable(into, False)  # a worker of the compiler would hold it open

    def answer(told: dict[str, Any]) -> None:
        os.write(into, (json.dumps(told) + "\n").encode())

    try:
        import torch
    except ModuleNotFoundError as error:
        answer({"missing": f"torch is not installed for this Python ({error})"})
        return 1
    torch.set_num_threads(min(2, torch.get_num_threads()))
    if argv[1] == "about":
        answer(about(torch))
        return 0
    for name in argv[2:]:
        answer({"begin": name})
        answer(one(torch, name, argv[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
