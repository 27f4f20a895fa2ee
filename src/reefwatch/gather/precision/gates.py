"""What libraries were asked for and what they gave: BLAS, MIOpen, flags, and warnings already told.

Only read. The BLAS library is asked for after a product ran on a GPU: the question itself makes
torch check the card, which the first product does anyway. Warnings are found where Python notes
those that it has shown, so that none is caught or repeated.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from reefwatch.core.errors import Breach
from reefwatch.core.fact import Evidence, Unknown
from reefwatch.gather.instrument import Instrument, Tools

ENVIRONMENT = re.compile(
    r"(?:MIOPEN_|TORCH_BLAS_PREFER_|ROCBLAS_|HIPBLASLT_|PYTORCH_MIOPEN_|TORCH_ROCM_|"
    r"PYTORCH_TUNABLEOP_|NVIDIA_TF32_OVERRIDE$|TORCH_ALLOW_TF32_|HSA_OVERRIDE_GFX_VERSION$|"
    r"FLASH_ATTENTION_TRITON_AMD_|DISABLE_ADDMM_CUDA_LT$|TORCH_CUDNN_|CUBLAS_)\w*"
)
WARNED = re.compile(
    r"hipblaslt|cublaslt|blas backend|STATUS_NOT_SUPPORTED|aotriton|"
    r"flash attention|efficient attention|miopen",
    re.IGNORECASE,
)
PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "addmv", "mv", "_scaled_mm")


class Gates(Instrument):
    """Reads flags and the BLAS library at the end of examined steps."""

    name = "precision.gates"
    contract = "precision"
    wants_ops = True

    def __init__(self) -> None:
        self._product = ""
        self._half = False
        self._blas: dict[str, Any] = {}
        self._flags: dict[str, Any] = {}
        self._environ: dict[str, str] = {}
        self._referred = False

    def arm(self, tools: Tools) -> None:
        self._tools = tools
        self._tensor = tools.torch.Tensor
        # torch reads them when its context is made: what the script sets later has no effect
        self._environ = {k: v for k, v in os.environ.items() if ENVIRONMENT.fullmatch(k)}

    def on_op(self, call: Any) -> None:
        if self._product and self._half:
            return
        if call.name.partition(".")[2].partition(".")[0] not in PRODUCTS:
            return
        first = next((arg for arg in call.args if isinstance(arg, self._tensor)), None)
        if first is not None and first.device.type == "cuda":
            self._product = call.name
            self._half = self._half or first.dtype is self._tools.torch.float16

    def close(self, step: int) -> bool:
        self._flags = flags(self._tools.torch, self._flags)
        if self._product:
            self._read_blas()
        return False

    def _read_blas(self) -> None:
        try:
            given = self._tools.torch.backends.cuda.preferred_blas_library()
        except (RuntimeError, AttributeError) as error:
            self._blas.setdefault("error", type(error).__name__)
            return
        name = str(given).rpartition(".")[2].lower()
        self._blas.setdefault("first", name)
        self._blas["last"] = name

    def on_step(self, step: int, seconds: float, examined: bool) -> None:
        """Strict mode: a library that torch stepped back from, once, after an examined step."""
        if self._tools.referee is None or self._referred or "last" not in self._blas:
            return
        if not examined:
            return
        why = stepped_back(self._blas, wanted(self._environ), warned())
        if why:
            self._referred = True
            row = {"kind": "blas", "why": why}
            message = self._tools.referee.breach(self.contract, row)
            if message is not None:
                raise Breach(message)

    def disarm(self) -> None:
        sink = self._tools.sink
        told: dict[str, Any] = {
            "environment": self._environ,
            "flags": self._flags,
            "warnings": warned(),
        }
        sink.fact("precision.gates", Evidence("precision.gates", told, source="read"))
        why = "timing signatures are an experiment, and none was asked for"
        sink.fact("precision.signatures", Evidence("precision.signatures", False, source=why))
        if not self._product:
            why = "no product on a GPU was seen"
            sink.fact("precision.blas", Evidence("precision.blas", False, source=why))
        elif "last" not in self._blas:
            sink.fact("precision.blas", Unknown("torch does not tell its BLAS library"))
        else:
            asked = wanted(self._environ)
            value = {**self._blas, "asked": asked, "after": self._product, "half": self._half}
            value["warnings"] = [t for t in told["warnings"] if "blas" in t.lower()]
            sink.fact("precision.blas", Evidence("precision.blas", value, source="read"))


def wanted(environ: Mapping[str, str]) -> str:
    """The BLAS library that the environment asks for; "" when it leaves it to torch."""
    for word, library in (("HIPBLASLT", "cublaslt"), ("CUBLASLT", "cublaslt")):
        value = environ.get(f"TORCH_BLAS_PREFER_{word}", "")
        if value:
            return library if value == "1" else "cublas"
    return ""


def stepped_back(blas: Mapping[str, Any], asked: str, warnings: list[str]) -> str:
    """Why products do not go to the library that was asked for or that was first; "" if they do."""
    if asked and blas["last"] != asked:
        return f"{asked} was asked for, and products went to {blas['last']}"
    if blas["first"] != blas["last"]:
        return f"{blas['first']} became {blas['last']} while the run went on"
    return next((text for text in warnings if "blas" in text.lower()), "")


def flags(torch: Any, before: Mapping[str, Any]) -> dict[str, Any]:
    """Flags that choose a kernel or a precision; one that was on `before` stays on.

    One that cannot be read is its error's name: torch raises where old and new TF32 settings mix.
    """
    cuda, backends = torch.backends.cuda.matmul, torch.backends
    readers: dict[str, Callable[[], Any]] = {
        "matmul.fp16_accumulation": lambda: cuda.allow_fp16_accumulation,
        "matmul.fp16_reduced_split_k": lambda: cuda.allow_fp16_reduced_precision_reduction_split_k,
        "matmul.bf16_reduced_split_k": lambda: cuda.allow_bf16_reduced_precision_reduction_split_k,
        "cudnn.benchmark": lambda: backends.cudnn.benchmark,
        "cudnn.deterministic": lambda: backends.cudnn.deterministic,
        "cudnn.enabled": lambda: backends.cudnn.enabled,
        "cudnn.rnn.fp32_precision": lambda: backends.cudnn.rnn.fp32_precision,
        "miopen.immediate": lambda: backends.miopen.immediate,
        "sdp.flash": backends.cuda.flash_sdp_enabled,
        "sdp.efficient": backends.cuda.mem_efficient_sdp_enabled,
        "sdp.cudnn": backends.cuda.cudnn_sdp_enabled,
        "sdp.math": backends.cuda.math_sdp_enabled,
    }
    told: dict[str, Any] = {}
    for name, read in readers.items():
        try:
            value = read()
        except (RuntimeError, AttributeError) as error:
            value = type(error).__name__
        value = value if isinstance(value, (bool, str)) else str(value)
        told[name] = value or before.get(name, value)
    return told


def warned() -> list[str]:
    """Warnings about these gates that Python has shown and noted in this process."""
    found: dict[str, None] = {}
    for module in list(sys.modules.values()):
        noted = getattr(module, "__dict__", {}).get("__warningregistry__")
        if isinstance(noted, dict):
            for key in list(noted):
                text = key[0] if isinstance(key, tuple) and key else ""
                if isinstance(text, str) and WARNED.search(text):
                    found[text.partition(" (Triggered")[0][:300]] = None
    return list(found)
