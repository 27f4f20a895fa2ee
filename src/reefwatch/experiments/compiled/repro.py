"""A repro that runs alone: the code of the window, its inputs in safetensors, an issue text."""

from __future__ import annotations

import ast
import json
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.fx import GraphModule

from reefwatch.experiments.compiled.window import Window

_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.complex64: "C64",
}
_HEAD = '''"""{title}

Runs alone: prints WRONG if compiled code departs from the same code in eager, else RIGHT.
Found with torch {version}; the smallest part of a graph that departs, with its real inputs.
"""
import json, os, struct, torch
{imports}
HERE = os.path.dirname(os.path.abspath(__file__))
{configs}

def tensors():
    """The storages in inputs.safetensors, by name."""
    kinds = {{"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
             "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8",
             "BOOL": "bool", "C64": "complex64"}}
    raw = open(os.path.join(HERE, "inputs.safetensors"), "rb").read()
    size, = struct.unpack("<Q", raw[:8])
    found = {{}}
    for name, about in json.loads(raw[8:8 + size]).items():
        a, b = about["data_offsets"]
        data = bytearray(raw[8 + size + a:8 + size + b])
        dtype = getattr(torch, kinds[about["dtype"]])
        found[name] = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    return found


def made(files, name, offset, size, stride, grad, device):
    tensor = torch.as_strided(files[name], size, stride, offset)
    if device != "cpu":
        tensor = torch.as_strided(files[name].to(device), size, stride, offset)
    return tensor.detach().requires_grad_(grad)

'''
_TAIL = '''
VIEWS = {views}
CONSTANTS = {constants}
COTANGENT = {cotangent!r}
DEVICE_CASTS = {casts!r}
TOLERANCE = {tolerance!r}


def inputs():
    files = tensors()
    return [made(files, *view) if view[0] != "constant" else view[1] for view in VIEWS]


def model():
    files, found = tensors(), Window()
    for path, view in CONSTANTS.items():
        owner, _, name = path.rpartition(".")
        value = made(files, *view)
        setattr(found.get_submodule(owner) if owner else found, name, value)
    return found


def outcome(call):
    """Results, gradients and inputs afterwards; the exception's class where it raises."""
    args = inputs()
    torch.manual_seed(0)
    try:
        import contextlib
        with contextlib.ExitStack() as stack:
            for device, dtype in DEVICE_CASTS:
                stack.enter_context(torch.autocast(device, dtype=getattr(torch, dtype)))
            with torch.set_grad_enabled(COTANGENT is not None):
                outs = call(*args)
        outs = outs if isinstance(outs, (tuple, list)) else [outs]
        outs = [out for out in outs if torch.is_tensor(out)]
        got = [one.detach().clone() for one in (*outs, *args) if torch.is_tensor(one)]
        wanted = [a for a in args if torch.is_tensor(a) and a.requires_grad]
        outs = [out for out in outs if out.requires_grad]
        if COTANGENT is not None and outs and wanted:
            g = torch.Generator().manual_seed(7919)
            sent = [torch.randn(out.shape, generator=g).to(out) if COTANGENT == "random"
                    else torch.ones(()).to(out).expand(out.shape) for out in outs]
            made = torch.autograd.grad(outs, wanted, sent, allow_unused=True)
            got += [gradient for gradient in made if gradient is not None]
    except Exception as error:
        return type(error).__name__
    return got


def departs(ours, theirs):
    if isinstance(ours, str) or isinstance(theirs, str):
        return isinstance(ours, str) != isinstance(theirs, str)
    for a, b in zip(ours, theirs):
        if a.shape != b.shape or a.dtype != b.dtype:
            return True
        if not a.is_floating_point():
            if not torch.equal(a, b):
                return True
            continue
        a, b = a.double(), b.double()
        if not torch.equal(a.isfinite(), b.isfinite()):
            return True
        fine = b.isfinite()
        off, size = (a - b)[fine].abs(), b[fine].abs()
        if size.numel():
            scale = size.clamp(min=float(size.pow(2).mean().sqrt()))
            if bool((off > TOLERANCE * scale).any()):
                return True
    return len(ours) != len(theirs)


if __name__ == "__main__":
    eager = outcome(model())
    compiled = outcome(torch.compile(model(), backend={backend!r}))
    print("WRONG" if departs(compiled, eager) else "RIGHT")
'''


def write(
    folder: Path, window: Window, backend: Any, row: dict[str, Any], casts: list[Any]
) -> Path:
    """Write repro.py, inputs.safetensors and issue.md; the path of the first. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    files = Storages()
    views = [files.view(value) for value in window.inputs]
    code, imports = _code(window.graph)
    constants = {path: files.view(value) for path, value in _constants(window.graph)}
    name = backend if isinstance(backend, str) else "inductor"
    label = window.labels[0] if window.labels else ""
    text = _HEAD.format(
        title=f"{row['text']}".replace('"""', "'''"),
        version=torch.__version__,
        imports="\n".join(sorted(imports)),
        configs="\n".join(_configs()),
    )
    text += code + _TAIL.format(
        views=views,
        constants=constants,
        cotangent=None if not label else "random" if label.startswith("random") else "ones",
        casts=casts,
        backend=name,
        tolerance=_tolerance(row),
    )
    (folder / "inputs.safetensors").write_bytes(files.written())
    path = folder / "repro.py"
    path.write_text(text)
    issue(folder, row, window, backend)
    return path


def issue(folder: Path, row: dict[str, Any], window: Window, backend: Any) -> None:
    """Write issue.md anew. Raises OSError."""
    name = backend if isinstance(backend, str) else "inductor"
    text = (folder / "repro.py").read_text()
    (folder / "issue.md").write_text(_issue(row, window, name, text))


def says(path: Path, seconds: float) -> str:
    """What the repro prints when it is run alone: `WRONG`, `RIGHT` or why it did not end."""
    try:
        done = subprocess.run(
            [sys.executable, str(path)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    lines = done.stdout.strip().splitlines()
    return lines[-1] if lines and lines[-1] in ("WRONG", "RIGHT") else "an error"


def _tolerance(row: dict[str, Any]) -> float:
    """Relative to the larger of element and rms; 16-bit results are rounded more coarsely."""
    low = any(word.startswith(("bfloat16", "float16")) for word in row["inputs"])
    return 0.03 if low else 1e-4


class Storages:
    """Tensors as views of storages, each written once."""

    def __init__(self) -> None:
        self._kept: dict[Any, tuple[str, torch.Tensor]] = {}

    def view(self, value: Any) -> tuple[Any, ...]:
        """What makes the tensor again: name, offset, size, stride, wants a gradient, device."""
        if not isinstance(value, torch.Tensor):
            return ("constant", value)
        storage = value.untyped_storage()
        key = (storage._cdata, value.dtype)
        if key not in self._kept:
            count = storage.nbytes() // value.element_size()
            flat = torch.as_strided(value.detach(), (count,), (1,), 0)
            self._kept[key] = (f"storage{len(self._kept)}", flat.cpu().contiguous())
        name = self._kept[key][0]
        place = (value.storage_offset(), tuple(value.size()), tuple(value.stride()))
        return (name, *place, value.requires_grad, str(value.device))

    def written(self) -> bytes:
        """The file, in the format of safetensors."""
        head: dict[str, Any] = {}
        body = b""
        for name, flat in self._kept.values():
            raw = bytes(flat.view(torch.uint8).numpy()) if flat.numel() else b""
            head[name] = {
                "dtype": _DTYPES[flat.dtype],
                "shape": [flat.numel()],
                "data_offsets": [len(body), len(body) + len(raw)],
            }
            body += raw
        packed = json.dumps(head).encode()
        packed += b" " * (-len(packed) % 8)
        return struct.pack("<Q", len(packed)) + packed + body


def _constants(graph: GraphModule) -> list[tuple[str, torch.Tensor]]:
    """Tensors that the code reads as attributes."""
    found = []
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            value: Any = graph
            for part in str(node.target).split("."):
                value = getattr(value, part, None)
            if isinstance(value, torch.Tensor):
                found.append((str(node.target), value.detach()))
    return found


def _code(graph: GraphModule, name: str = "Window") -> tuple[str, set[str]]:
    """(source of the classes, import lines)."""
    made = graph.graph.python_code("self")
    imports: set[str] = set()
    before = ""
    children: list[str] = []
    for child, module in graph.named_children():
        if isinstance(module, GraphModule):
            inner, more = _code(module, f"{name}_{child}")
            imports |= more
            before += inner
            children.append(f"        self.{child} = {name}_{child}()")
    for alias, value in made.globals.items():
        line = _import(alias, value)
        if line:
            imports.add(line)
    body = "\n".join("    " + line for line in made.src.strip().splitlines())
    first = ["    def __init__(self):", "        super().__init__()", *children, ""]
    return before + f"\nclass {name}(torch.nn.Module):\n" + "\n".join(first) + body + "\n", imports


def _import(alias: str, value: Any) -> str:
    if alias == "torch":
        return ""
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {alias}"
    if alias in ("inf", "nan"):
        return f"from math import {alias}"
    if value is type(None):
        return f"{alias} = type(None)"
    module, name = getattr(value, "__module__", ""), getattr(value, "__qualname__", "")
    if module == "builtins":
        return ""
    return f"from {module} import {name} as {alias}" if module and name else ""


def _configs() -> list[str]:
    """Settings of the compiler that are not as they are shipped, as far as text can say them."""
    lines = ["import torch._dynamo, torch._functorch.config, torch._inductor.config"]
    for module in (torch._dynamo.config, torch._functorch.config, torch._inductor.config):
        try:
            told = module.codegen_config().splitlines()
        except Exception:
            continue
        for line in told:
            left, _, right = line.partition(" = ")
            try:
                ast.literal_eval(right)
            except (ValueError, SyntaxError):
                continue
            if left.startswith("torch."):
                lines.append(line)
    return lines


def _issue(row: dict[str, Any], window: Window, backend: str, code: str) -> str:
    """The text of an issue for upstream; what the machine is comes from torch itself."""
    alone = {
        "WRONG": "`repro.py` with `inputs.safetensors` beside it runs alone and prints WRONG.",
        "": "`repro.py` with `inputs.safetensors` beside it was not tried alone.",
    }.get(row["alone"], f"Alone, `repro.py` prints {row['alone']}: not ready to be reported.")
    about = f"torch {torch.__version__}, Python {sys.version.split()[0]}"
    return f"""## torch.compile gives other results than eager ({row["stage"]})

{row["text"]}

- smallest part of the graph that departs: `{" ".join(window.ops)}`
- stage: {row["stage"]} (backend `{backend}`); earlier stages agree with the original
- elements that are off: {row["wrong"]} of {row["elements"]}
- largest error {row["error"]:.6g}, allowed {row["allowed"]:.6g} (referee: {row["referee"]})
- inputs: {", ".join(row["inputs"])}
- line: {window.source or "not known"}; module: {window.module or "none"}
- {about}

{alone}

```python
{code}```
"""
