"""Python sources, by their syntax tree: comments, docstrings and messages are no code.

A place is guarded behind a test that names ROCm or HIP, on either side of it and after it when it
leaves; imports also behind any test, and where their failure is caught.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from reefwatch.gather.machine.port import native, plain
from reefwatch.gather.machine.port.places import (
    ARCH,
    HOMES,
    LIBRARY,
    ROCM,
    SHORT_LIBRARY,
    WARP_NAME,
    Place,
    index,
    once,
    package,
)
from reefwatch.gather.machine.port.syntax import (
    asks_rocm,
    caught,
    cuda_module,
    gets_cuda_version,
    identifiers,
    is_cuda_version,
    is_value,
    knows_hip,
    leaves,
    told_nvidia,
)

_CAUGHT = frozenset(
    ("ImportError", "ModuleNotFoundError", "Exception", "BaseException", "OSError", "RuntimeError")
)
_SAID = re.compile(
    r"print|log|debug|info|warn\w*|error|critical|exception|fail|skip\w*|help|epilog"
)
_FLAGS = re.compile(r"-gencode\b.*|--use_fast_math|--expt-[\w-]+|(?:\S*/)nvcc(?:\s.*)?|nvcc\s.*")
_TF32_NAMES = ("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE")
_EXTENSION = ("CUDAExtension", "CUDA_HOME", "extra_cuda_cflags", "cuda_sources")
_FP8 = ("float8_e4m3fn", "float8_e5m2")
_IMAGE = re.compile(r"(?:^|\s)(?:docker://)?(?:nvidia/cuda:|nvcr\.io/)")
_DOCKER = re.compile(r"\b(?:docker|podman|nerdctl)\b.*--gpus\b", re.DOTALL)
_ROCM_IN_TEXT = re.compile(
    r"rocm|(?<![a-z])hip|(?<![a-z])amd|gcnarch|gfx|_?ck\b|fnuz", re.IGNORECASE
)
_REQUIRES = re.compile(r"requires?|requirements|dependenc(?:y|ies)|deps", re.IGNORECASE)
_SPARSE_LT = re.compile(r"cusparselt|^_cslt_", re.IGNORECASE)
_KERNEL = re.compile(r"\b__(?:global|device|shared)__\b")


def places(text: str, name: str, ours: frozenset[str]) -> Iterator[Place] | None:
    """The places of one source; `ours` are packages of the code base itself. None: no Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    reader = _Reader(name, ours, text, knows_hip(tree))
    try:
        reader.statements(tree.body)
    except RecursionError:
        return None
    return once(iter(reader.found))


def cells(text: str, name: str, ours: frozenset[str]) -> Iterator[Place] | None:
    """The places of a notebook, with the lines of its file. None for what is no notebook."""
    try:
        told = json.loads(text)
        sources = [cell["source"] for cell in told["cells"] if cell["cell_type"] == "code"]
        lines = [[str(line) for line in (one.splitlines(True) if isinstance(one, str) else one)]
                 for one in sources]  # fmt: skip
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError):
        return None
    return _of_cells(lines, text.split("\n"), name, ours)


def _of_cells(
    lines: Sequence[Sequence[str]], raw: Sequence[str], name: str, ours: frozenset[str]
) -> Iterator[Place]:
    at = 0
    for cell in lines:
        numbers = []
        for line in cell:
            wanted = json.dumps(line)[1:-1]
            there = next((n for n in range(at, len(raw)) if wanted and wanted in raw[n]), at)
            numbers.append(there + 1)
            at = there
        code = "".join("\n" if re.match(r"\s*[%!?]", line) else line for line in cell)
        shell = "\n".join(
            line.strip()[1:] if line.lstrip().startswith("!") else "" for line in cell
        )
        found = list(places(code, name, ours) or ()) + list(plain.shell(shell))
        for place in found:
            where = numbers[min(place.line, len(numbers)) - 1] if numbers else 1
            yield Place(place.kind, where, place.what, place.guarded)


class _Reader(ast.NodeVisitor):
    """Walks the tree and knows what stands around."""

    def __init__(self, name: str, ours: frozenset[str], text: str, knows_hip: bool) -> None:
        self.found: list[Place] = []
        # most files name neither, and need not be searched for it at each test
        self._named = bool(_ROCM_IN_TEXT.search(text))
        self._platforms = "version" in text or "is_cuda" in text or "nvidia" in text
        self._name, self._ours, self._knows_hip = name, ours, knows_hip
        self._rocm = self._caught = self._tests = self._said = self._requires = 0
        self._optional: set[str] = set()

    def _put(self, kind: str, node: ast.AST, what: str, guarded: bool = False) -> None:
        guarded = guarded or self._rocm > 0
        self.found.append(Place(kind, getattr(node, "lineno", 1), what, guarded))

    def _asks(self, node: ast.AST) -> bool:
        return self._named and asks_rocm(node)

    def _nvidia(self, test: ast.expr, true: bool) -> bool:
        """Whether a test that came out so was passed on NVIDIA alone."""
        return self._platforms and told_nvidia(test, true)

    @contextmanager
    def _in(self, counter: str, yes: bool = True) -> Iterator[None]:
        setattr(self, counter, getattr(self, counter) + yes)
        try:
            yield
        finally:
            setattr(self, counter, getattr(self, counter) - yes)

    # what stands around

    def statements(self, body: Sequence[ast.stmt]) -> None:
        """A list of statements: a test for ROCm that leaves guards those after it."""
        for number, one in enumerate(body):
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
                continue  # a docstring, or a string that stands alone
            short = (one.end_lineno or one.lineno) - one.lineno < 20
            simple = isinstance(one, (ast.Assign, ast.AnnAssign, ast.Return, ast.Assert, ast.Expr))
            with self._in("_rocm", simple and short and self._asks(one)):
                self.visit(one)
            if (
                isinstance(one, ast.If)
                and (self._asks(one.test) or self._nvidia(one.test, False))
                and not one.orelse
                and leaves(one.body)
            ):
                with self._in("_rocm"):
                    self.statements(body[number + 1 :])
                return

    def generic_visit(self, node: ast.AST) -> None:
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                self.statements(value)
            elif isinstance(value, list):
                for part in value:
                    if isinstance(part, ast.AST):
                        self.visit(part)
            elif isinstance(value, ast.AST):
                self.visit(value)

    def visit_Assert(self, node: ast.Assert) -> None:
        self.visit(node.test)
        if node.msg is not None:
            with self._in("_said"):
                self.visit(node.msg)

    def visit_If(self, node: ast.If) -> None:
        self._branch(node, self.statements)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._branch(node, self.visit)

    def visit_While(self, node: ast.While) -> None:
        self._branch(node, self.statements)

    def _branch(self, node: ast.If | ast.IfExp | ast.While, each: Callable[[Any], None]) -> None:
        asks = self._asks(node.test)
        with self._in("_rocm", asks):
            self.visit(node.test)
            with self._in("_tests", not isinstance(node.test, ast.Constant)):
                with self._in("_rocm", self._nvidia(node.test, True)):
                    each(node.body)
                with self._in("_rocm", self._nvidia(node.test, False)):
                    each(node.orelse)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        with self._in("_rocm", self._asks(node)):
            self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> None:
        names = {name for handler in node.handlers for name in caught(handler)}
        is_caught = bool(names & _CAUGHT) or any(name.startswith("NVML") for name in names)
        with self._in("_caught", is_caught):
            self.statements(node.body)
            self.statements(node.orelse)
        for handler in node.handlers:
            self.statements(handler.body)
        self.statements(node.finalbody)

    def visit_With(self, node: ast.With) -> None:
        names = {one for item in node.items for one in identifiers(item.context_expr)}
        with self._in("_caught", "suppress" in names and bool(names & _CAUGHT)):
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        with self._in("_said"):
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for one in (*node.args.args, *node.args.kwonlyargs):
            self._warp_default(one, node)
        # `def is_cuda()` beside one that asks for HIP tells the two apart
        apart = self._knows_hip and bool(re.search(r"cuda|nvidia", node.name, re.IGNORECASE))
        with self._in("_rocm", bool(ROCM.search(node.name)) or apart):
            self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_FormattedValue(self, node: ast.FormattedValue) -> None:
        with self._in("_said"):
            self.generic_visit(node)

    # what is found

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._import(node, alias.name, alias.asname or alias.name.partition(".")[0])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or not node.module:
            return
        names = [f"{node.module}.{alias.name}" for alias in node.names]
        for alias in node.names:
            if _SPARSE_LT.search(alias.name):
                self._put("ptx", node, alias.name)
        bound = node.names[0].asname or node.names[0].name
        first = next((name for name in names if cuda_module(name)), node.module)
        if node.module == "torch.utils.cpp_extension":
            for alias in node.names:
                if alias.name in _EXTENSION:
                    self._put("extension", node, alias.name)
        self._import(node, first, bound)

    def _import(self, node: ast.stmt, name: str, bound: str) -> None:
        found = cuda_module(name)
        if not found or found.partition(".")[0] in self._ours:
            return
        guarded = bool(self._caught or self._tests)
        if guarded:
            self._optional.add(bound)
        self._put("import", node, f"import {found}", guarded)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if is_cuda_version(node) and not self._said:
            self._put("cuda version", node, "torch.version.cuda")
        elif node.attr in _FP8:
            self._put("fp8", node, node.attr)
        elif node.attr == "inline_asm_elementwise":
            self._put("ptx", node, node.attr)
        elif node.attr in ("major", "minor") and "get_device_properties" in identifiers(node.value):
            self._put("capability", node, f"get_device_properties().{node.attr}")
        elif node.attr == "get_device_capability":
            self._put("capability", node, node.attr)
        elif re.fullmatch(r"nvml[A-Z]\w+", node.attr):
            root = next(iter(identifiers(node.value)), "")
            self._put("smi", node, node.attr, bool(self._caught) or root in self._optional)
        elif _SPARSE_LT.search(node.attr):
            self._put("ptx", node, node.attr)
        elif node.attr in _EXTENSION[:2] and not self._said:
            self._put("extension", node, node.attr)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            if _SPARSE_LT.search(node.id):
                self._put("ptx", node, node.id)
            elif node.id == "get_device_capability":
                self._put("capability", node, node.id)
            elif node.id in _EXTENSION[:2]:
                self._put("extension", node, node.id)
            elif re.fullmatch(r"nvml[A-Z]\w+", node.id):
                self._put("smi", node, node.id, bool(self._caught) or node.id in self._optional)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._assigned(target, node.value, node)
        names = " ".join(one for target in node.targets for one in identifiers(target))
        with self._in("_requires", self._name == "setup.py" and bool(_REQUIRES.search(names))):
            self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assigned(node.target, node.value, node)
        self.generic_visit(node)

    def _assigned(self, target: ast.expr, value: ast.expr, node: ast.stmt) -> None:
        name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
        plain_value = (
            value.args[0] if isinstance(value, ast.Call) and len(value.args) == 1 else value
        )
        if WARP_NAME.fullmatch(name) and is_value(plain_value, 32):
            self._put("warp", node, f"{name} = 32")
        flag = name if isinstance(target, ast.Attribute) else ""
        if flag == "allow_tf32" and not is_value(value, False):
            self._put("tf32", node, flag)
        if flag == "fp32_precision" and not is_value(value, "ieee"):
            self._put("tf32", node, flag)

    def _warp_default(self, arg: ast.arg, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        defaults = dict(zip(reversed(node.args.args), reversed(node.args.defaults), strict=False))
        given = defaults.get(arg)
        if given is not None and WARP_NAME.fullmatch(arg.arg) and is_value(given, 32):
            self._put("warp", arg, f"{arg.arg} = 32")

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg and WARP_NAME.fullmatch(node.arg) and is_value(node.value, 32):
            self._put("warp", node, f"{node.arg}=32")
        elif node.arg == "allow_tf32" and is_value(node.value, True):
            self._put("tf32", node, "allow_tf32=True")
        elif node.arg in _EXTENSION[2:]:
            self._put("extension", node, node.arg)
        requires = self._name == "setup.py" and node.arg in ("install_requires", "setup_requires")
        with (
            self._in("_requires", requires),
            self._in("_said", node.arg in ("help", "description", "epilog", "reason", "msg")),
        ):
            self.visit(node.value)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, (ast.Mult, ast.FloorDiv, ast.Mod)):
            for one, other in ((node.left, node.right), (node.right, node.left)):
                name = one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "")
                if is_value(other, 32) and re.search(
                    r"warps|lane_?id|(?:^|_)lane$", name, re.IGNORECASE
                ):
                    self._put("warp", node, ast.unparse(node)[:80])
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = (
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        )
        first = node.args[0] if node.args else None
        if called == "set_float32_matmul_precision" and not is_value(first, "highest"):
            self._put("tf32", node, called)
        elif called in ("to", "device") and isinstance(first, ast.Constant):
            if re.fullmatch(r"(?:hip|rocm)(?::\d+)?", f"{first.value!s}"):
                # wrong above all where ROCm is meant
                self.found.append(Place("hip device", node.lineno, f'"{first.value!s}"'))
        elif called == "find_library" and getattr(first, "value", "") in SHORT_LIBRARY:
            self._loaded(node, str(getattr(first, "value", "")))
        elif called == "which" and is_value(first, "nvcc"):
            self._put("extension", node, "nvcc")
        elif called == "getattr" and gets_cuda_version(node):
            self._put("cuda version", node, "torch.version.cuda")
        with self._in("_said", bool(_SAID.fullmatch(called))):
            self.generic_visit(node)

    def _loaded(self, node: ast.AST, name: str) -> None:
        kind = "smi" if "nvidia-ml" in name or "nvml" in name else "import"
        self._put(kind, node, name, bool(self._caught or self._tests))

    def visit_List(self, node: ast.List) -> None:
        words = {part.value for part in node.elts if isinstance(part, ast.Constant)}
        if node.elts and is_value(node.elts[0], "nvcc"):
            self._put("extension", node, "nvcc")
        if words & {"docker", "podman"} and "--gpus" in words:
            self._put("container", node, "--gpus")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if not isinstance(node.value, str) or self._said:
            return
        text = node.value
        if _KERNEL.search(text):
            for place in native.places(text):
                self._put(place.kind, ast.Pass(lineno=node.lineno + place.line - 1, col_offset=0),
                          place.what, place.guarded)  # fmt: skip
            return
        if re.match(r"(?:\S*/)?nvidia-smi(?:\s|$)", text):
            self._put("smi", node, "nvidia-smi", bool(self._caught))
        if LIBRARY.search(text):
            self._loaded(node, text)
        if text in HOMES:
            self._put("extension", node, text)
        if text in _TF32_NAMES:
            self._put("tf32", node, text)
        if text == "TORCH_CUDA_ARCH_LIST" or (ARCH.search(text) and len(text) < 200):
            found = ARCH.search(text)
            self._put("capability", node, found[0] if found else text)
        if _FLAGS.fullmatch(text.strip()):
            self._put("extension", node, text.strip()[:60])
        if _IMAGE.search(text) or _DOCKER.search(text):
            self._put("container", node, text.strip()[:60])
        if index(text):
            self._put("requirement", node, index(text))
        elif self._requires and package(text):
            self._put("requirement", node, package(text))
