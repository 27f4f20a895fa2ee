"""The user's file, run: its test functions when it has some, else its main."""

from __future__ import annotations

import importlib.util
import inspect
import os
import random
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SEED = 20


def seed(torch: Any) -> None:
    """The same random numbers in every process: launches of two versions are compared."""
    random.seed(SEED)
    torch.manual_seed(SEED)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(SEED)


def run(
    file: Path, begin: Callable[[str, dict[str, Any]], None], torch: Any
) -> Iterator[dict[str, Any]]:
    """Run the units of a file; yields {"unit", "ok", "error", "kind"} of each.

    `begin` is told the unit's name and the module's names. Output of the file goes where it goes.
    """
    sys.argv = [str(file)]
    sys.path.insert(0, str(file.parent))
    asserts = asserting(file)
    for unit in _units(file, begin, torch):
        yield {**unit, "asserts": asserts}


def asserting(file: Path) -> bool:
    """Does the file check anything: an assert, or a call of a name with `assert` in it?"""
    import ast

    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        name = getattr(node, "attr", getattr(node, "id", ""))
        if isinstance(node, ast.Assert) or "assert" in str(name).lower():
            return True
    return False


def _units(
    file: Path, begin: Callable[[str, dict[str, Any]], None], torch: Any
) -> Iterator[dict[str, Any]]:
    if not _tests(file):
        begin("main", {})
        seed(torch)
        yield _unit("main", lambda: runpy.run_path(str(file), run_name="__main__"))
        return
    if _needs_pytest(file):
        yield from _pytest(file, begin, torch)
        return
    seed(torch)
    module, failed = _module(file)
    if failed:
        yield failed
        return
    for name, test in _functions(module):
        begin(name, vars(module))
        seed(torch)
        yield _unit(name, test)


def _tests(file: Path) -> list[str]:
    import ast

    tree = ast.parse(file.read_text(encoding="utf-8"))
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def _needs_pytest(file: Path) -> bool:
    import ast

    tree = ast.parse(file.read_text(encoding="utf-8"))
    taking = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and (node.args.args or node.decorator_list)
    ]
    return bool(taking) and importlib.util.find_spec("pytest") is not None


def _module(file: Path) -> tuple[Any, dict[str, Any] | None]:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    loader = spec.loader
    told = _unit("import", lambda: loader.exec_module(module))
    return module, None if told["ok"] else told


def _functions(module: Any) -> list[tuple[str, Callable[[], Any]]]:
    """Its test functions that take nothing, in the order of the file."""
    found = [
        (name, value)
        for name, value in vars(module).items()
        if name.startswith("test_") and inspect.isfunction(value)
    ]
    return [pair for pair in found if not inspect.signature(pair[1]).parameters]


def _unit(name: str, call: Callable[[], Any]) -> dict[str, Any]:
    try:
        call()
    except SystemExit as end:
        return {
            "unit": name,
            "ok": not end.code,
            "error": f"SystemExit: {end.code}",
            "kind": "exit",
        }
    except Exception as error:
        return {"unit": name, "ok": False, "kind": type(error).__name__, **_told(error)}
    return {"unit": name, "ok": True, "error": "", "kind": ""}


def _told(error: BaseException) -> dict[str, Any]:
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f"{os.sep}reefwatch{os.sep}" not in f.filename] or list(frames)
    line = " ".join(str(error).split())[:300]
    return {
        "error": f"{type(error).__name__}: {line}" if line else type(error).__name__,
        "file": own[-1].filename if own else "",
        "line": own[-1].lineno if own else 0,
    }


def _pytest(
    file: Path, begin: Callable[[str, dict[str, Any]], None], torch: Any
) -> Iterator[dict[str, Any]]:
    import pytest

    told: list[dict[str, Any]] = []

    class Units:
        def pytest_runtest_setup(self, item: Any) -> None:
            begin(item.name, vars(item.module))
            seed(torch)

        def pytest_exception_interact(self, node: Any, call: Any) -> None:
            error = call.excinfo.value
            name = getattr(node, "name", "import")
            told.append({"unit": name, "ok": False, "kind": type(error).__name__, **_told(error)})

        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.when == "call" and report.passed:
                name = report.nodeid.rpartition("::")[2]
                told.append({"unit": name, "ok": True, "error": "", "kind": ""})

    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--no-header",
        "-x",
        "--maxfail=50",
    ]
    pytest.main([str(file), *options], plugins=[Units()])
    yield from told
