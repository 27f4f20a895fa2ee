"""The import hook: called once, at the right moment, and never seen."""

import importlib
import importlib.util
import sys
import traceback

import pytest

from reefwatch.gather.imports import PostImport

NAME = "reefwatch_probe"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Writes the body of a package that can be imported as NAME."""
    folder = tmp_path / NAME
    folder.mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(body):
        (folder / "__init__.py").write_text(body)
        importlib.invalidate_caches()

    yield write
    for name in [n for n in sys.modules if n.partition(".")[0] == NAME]:
        del sys.modules[name]


@pytest.fixture
def hook():
    calls = []
    hook = PostImport(NAME, lambda: calls.append(getattr(sys.modules[NAME], "done", None)))
    hook.calls = calls
    yield hook
    hook.stop()


def test_called_once_when_the_module_was_executed_to_its_end(package, hook):
    package("__version__ = '1'\nimport json\ndone = True\n")
    hook.start()
    assert hook in sys.meta_path
    module = importlib.import_module(NAME)
    assert hook.calls == [True]
    assert hook not in sys.meta_path
    assert type(module.__spec__) is importlib.machinery.ModuleSpec
    assert "_hook" not in vars(module.__spec__)
    importlib.reload(module)
    assert hook.calls == [True]


def test_already_imported(package, hook):
    package("done = 'before'\n")
    importlib.import_module(NAME)
    hook.start()
    assert hook.calls == ["before"]
    assert hook not in sys.meta_path


def import_failing():
    try:
        importlib.import_module(NAME)
    except Exception as error:
        return traceback.format_exc(), type(error), error.args
    raise AssertionError("it was imported")


@pytest.mark.parametrize("body", ["1/0\n", "import not_there_at_all\n", "x = (\n"])
def test_a_failing_import_looks_the_same(package, hook, body):
    package("__version__ = '1'\n" + body)
    plain = import_failing()
    hook.start()
    assert import_failing() == plain
    assert hook.calls == []
    package("done = 'second try'\n")
    importlib.import_module(NAME)
    assert hook.calls == ["second try"]


def test_a_missing_module_looks_the_same(hook):
    plain = import_failing()
    hook.start()
    assert import_failing() == plain
    assert hook.calls == []


def test_asking_for_a_spec_is_no_import(package, hook):
    package("done = True\n")
    hook.start()
    spec = importlib.util.find_spec(NAME)
    assert spec.origin.endswith("__init__.py") and hook.calls == []
    importlib.import_module(NAME)
    assert hook.calls == [True]


def test_stopped_in_time(package, hook):
    package("done = True\n")
    hook.start()
    hook.stop()
    importlib.import_module(NAME)
    assert hook.calls == [] and hook not in sys.meta_path
