"""A watched program looks from outside as with plain python: stdout, stderr, exit, signals."""

from __future__ import annotations

import os
import py_compile
import signal
import textwrap
import zipfile

import pytest

PROGRAMS = {
    "names of main": """
        import sys
        names = dict(globals())
        print(list(names))
        print(names["__file__"], names["__spec__"], names["__package__"], names["__cached__"])
        loader = names["__loader__"]
        print(type(loader).__name__, loader.name, loader.path)
        print(type(names["__builtins__"]).__name__, names["__annotations__"], names["__doc__"])
        print(sys.modules["__main__"].__dict__ is globals(), __name__)
        """,
    "argv and path": """
        '''A doc string.'''
        import os, sys
        print(sys.argv, [p for p in sys.path if "reefwatch" not in p], os.getcwd(), __doc__)
        """,
    "main guard": """
        def main(): print("main ran")
        if __name__ == "__main__": main()
        """,
    "uncaught": """
        def deep(n): return deep(n - 1) if n else {}["key"]
        print("before"); deep(3)
        """,
    "cause and context": """
        def f():
            try: 1 / 0
            except ZeroDivisionError as e: raise KeyError("a") from e
        try: f()
        except KeyError: raise ValueError("b")
        """,
    "exception group": """
        import sys
        if sys.version_info >= (3, 11):
            errors = []
            for n in range(2):
                try: raise ValueError(n)
                except ValueError as e: errors.append(e)
            raise ExceptionGroup("two", errors)
        """,
    "notes": """
        error = TypeError("x")
        if hasattr(error, "add_note"): error.add_note("a note")
        raise error
        """,
    "exit 7": "import sys; print('x'); sys.exit(7)",
    "exit text": "import sys; sys.exit('words to stderr')",
    "exit none": "raise SystemExit",
    "exit 256": "raise SystemExit(256)",
    "exit -1": "raise SystemExit(-1)",
    "exit float": "raise SystemExit(1.5)",
    "exit true": "raise SystemExit(True)",
    "exit tuple": "raise SystemExit((1, 2))",
    "exit in finally": """
        try: raise ValueError("lost")
        finally: raise SystemExit(3)
        """,
    "os._exit": "import os, sys; print('x', flush=True); os._exit(5)",
    "abort": "import os; os.abort()",
    "kills itself": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "interrupted": "import os, signal; print('x'); os.kill(os.getpid(), signal.SIGINT)",
    "interrupted with atexit": """
        import atexit, os, signal
        atexit.register(print, "atexit ran")
        os.kill(os.getpid(), signal.SIGINT)
        """,
    "raises KeyboardInterrupt": "raise KeyboardInterrupt('by hand')",
    "atexit": """
        import atexit
        class Thing: pass
        def last():
            import __main__, pickle
            print(type(pickle.loads(pickle.dumps(Thing()))) is Thing is __main__.Thing)
        atexit.register(last)
        print("end")
        """,
    "atexit raises": """
        import atexit
        class Bad:
            def __call__(self): raise ValueError("in atexit")
            def __repr__(self): return "bad"
        atexit.register(Bad())
        """,
    "destructor at the end": """
        class Noisy:
            def __del__(self): print("deleted")
        keep = Noisy()
        """,
    "thread outlives main": """
        import threading, time
        def work():
            time.sleep(0.3); print("thread done")
        threading.Thread(target=work).start()
        print("main done")
        """,
    "daemon thread": """
        import threading, time
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        print("main done")
        """,
    "raise while a thread runs": """
        import threading, time
        def work():
            time.sleep(0.3); print("thread done")
        threading.Thread(target=work).start()
        raise ValueError("main failed")
        """,
    "raise in thread": """
        import threading
        def work(): raise ValueError("in thread")
        t = threading.Thread(target=work, name="T"); t.start(); t.join()
        print("main done")
        """,
    "executor at exit": """
        from concurrent.futures import ThreadPoolExecutor
        import time
        pool = ThreadPoolExecutor(2)
        pool.submit(lambda: (time.sleep(0.2), print("job done")))
        """,
    "excepthook": """
        import sys
        def hook(kind, error, trace):
            print("hook", kind.__name__, error, trace.tb_frame.f_code.co_name, trace.tb_next)
            print(sys.last_value is error, sys.exc_info())
        sys.excepthook = hook
        raise ValueError("x")
        """,
    "excepthook raises": """
        import sys
        def hook(kind, error, trace): raise TypeError("in hook")
        sys.excepthook = hook
        raise ValueError("x")
        """,
    "excepthook exits": """
        import sys
        def hook(kind, error, trace): sys.exit(9)
        sys.excepthook = hook
        raise ValueError("x")
        """,
    "excepthook gone": "import sys\ndel sys.excepthook\nraise ValueError('x')",
    "traceback module": """
        import sys, traceback
        def hook(*error):
            traceback.print_exception(*error)
        sys.excepthook = hook
        raise ValueError("x")
        """,
    "recursion error": "def f(): return f()\nf()",
    "recursion depth": """
        def f(n):
            try: return f(n + 1)
            except RecursionError: return n
        print(f(0))
        """,
    "recursion limit set": """
        import sys
        sys.setrecursionlimit(500)
        def f(): f()
        try: f()
        except RecursionError: print("ok", sys.getrecursionlimit())
        """,
    "future annotations": """
        from __future__ import annotations
        x: nonsense = 1
        print(__annotations__)
        """,
    "no future of ours": """
        def f(x: int): pass
        print(f.__annotations__)
        """,
    "syntax error": "print('never')\nif True\n    x = 1\n",
    "syntax error with a deeper line": "def f():\n    return ((1, 2)\n\n\nx = 3\n",
    "indentation": "def f():\nreturn 1\n",
    "tab error": "if 1:\n        x = 1\n\ty = 2\n",
    "import of a module with a syntax error": """
        open("broken_neighbour.py", "w").write("a b\\n")
        import broken_neighbour
        """,
    "import error": "import no_such_module_at_all",
    "imported module raises": """
        open("raising_neighbour.py", "w").write("def f():\\n    1/0\\nf()\\n")
        import raising_neighbour
        """,
    "reads its own file": "print(open(__file__).read())",
    "reads stdin": "import sys; print(sys.stdin.read().upper())",
    "chdir": """
        import os, sys
        os.makedirs("sub", exist_ok=True); os.chdir("sub")
        print(os.getcwd(), __file__, sys.path[0])
        raise ValueError("from elsewhere")
        """,
    "warnings": """
        import warnings
        warnings.warn("old", DeprecationWarning)
        def f(): warnings.warn("at caller", stacklevel=2)
        f()
        """,
    "stdout closed": "import sys; print('x'); sys.stdout.close()",
    "stderr closed": "import sys; sys.stderr.close(); print('x')",
    "stderr replaced": "import io, sys; sys.stderr = io.StringIO(); raise ValueError('unseen')",
    "no newline at the end": "print('a', end='')",
    "fork child falls off": """
        import os
        if os.fork():
            os.wait(); print("parent")
        else:
            print("child")
        """,
    "fork child raises": """
        import os
        if os.fork():
            print(os.WEXITSTATUS(os.wait()[1]))
        else:
            raise ValueError("in child")
        """,
    "inspect source": """
        import inspect
        def f(): return "body of f"
        print(inspect.getsource(f), inspect.getmodule(f).__name__)
        """,
    "import main": """
        x = 5
        import __main__
        print(__main__.x, __main__.__name__)
        """,
    "mocked builtins": """
        import builtins, os, sys, json, time
        os.getcwd = os.getpid = json.dumps = time.monotonic = lambda *a, **k: 1 / 0
        builtins.sorted = builtins.open = None
        print("end")
        """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_script_looks_the_same(bench, name):
    bench.write("prog.py", PROGRAMS[name])
    bench.twins("prog.py", "--help", "-m", "a b", stdin="some input")


def test_an_exit_code_that_c_cannot_hold(bench):
    bench.write("prog.py", "raise SystemExit(2**70)")
    assert bench.watched("prog.py").returncode == bench.plain("prog.py").returncode == 255


def test_the_exit_is_by_the_signal_itself(bench):
    bench.write("prog.py", PROGRAMS["interrupted"])
    assert bench.watched("prog.py").returncode == -signal.SIGINT


def test_ctrl_c_from_outside(bench):
    bench.write(
        "prog.py",
        """
        import time
        try:
            print("ready", flush=True)
            time.sleep(60)
        finally: print("cleaned up")
        """,
    )
    watched = bench.twins("prog.py", interrupt_at=b"ready\n")
    assert watched.returncode == -signal.SIGINT
    assert b"cleaned up" in watched.stdout


def test_ctrl_c_while_a_thread_is_waited_for(bench):
    bench.write(
        "prog.py",
        """
        import threading, time
        threading.Thread(target=time.sleep, args=(1.5,)).start()
        def ready(): print("ready", flush=True)
        timer = threading.Timer(0.5, ready); timer.daemon = True; timer.start()
        """,
    )
    bench.twins("prog.py", interrupt_at=b"ready\n")


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbfprint('b\xc3\xb6m')\n",
        b"# -*- coding: latin-1 -*-\nprint(ascii('\xe9'))\n",
        b"print('a')\r\nprint('b')\r\n",
        b"print('crlf at end')",
        b"# coding: no-such-codec\nprint(1)\n",
        b"print('caf\xe9')\n",
        b"x = '\x00'\n",
        b"",
    ],
    ids=["bom", "cookie", "crlf", "no end", "bad cookie", "not utf-8", "null byte", "empty"],
)
def test_encodings(bench, text):
    bench.write("prog.py", text)
    bench.twins("prog.py")


def test_a_relative_path_and_a_link(bench):
    bench.write("real/prog.py", "import sys\nimport neighbour\nprint(sys.argv, __file__)\n1/0")
    bench.write("real/neighbour.py", "print(__file__)")
    (bench.folder / "link.py").symlink_to("real/prog.py")
    (bench.folder / "folder").symlink_to("real")
    for path in ("real/prog.py", "link.py", "./real/../real/prog.py", "folder/prog.py"):
        bench.twins(path)
    bench.twins("../link.py", cwd="real")
    bench.twins(str(bench.folder / "link.py"))


def test_a_name_with_spaces_and_without_suffix(bench):
    bench.write("my prog", "import sys; print(sys.argv, __file__)")
    bench.twins("my prog", "x y")


def test_a_folder_and_a_zip(bench):
    main = """
        import sys, helper
        print(sys.argv, sys.path[0], __file__, __package__, __spec__.name)
        1/0
        """
    bench.write("app/__main__.py", main)
    bench.write("app/helper.py", "print('helper', __file__)")
    with zipfile.ZipFile(bench.folder / "app.pyz", "w") as archive:
        archive.writestr("__main__.py", textwrap.dedent(main))
        archive.writestr("helper.py", "print('helper', __file__)")
    bench.twins("app", "x")
    bench.twins("app/", "x")
    bench.twins("app.pyz", "x")
    bench.twins(".", cwd="app")


def test_a_folder_without_main(bench):
    bench.write("app/helper.py", "")
    bench.twins("app")


def test_a_compiled_file(bench):
    source = bench.write("prog.py", "print(__file__, type(__loader__).__name__)")
    py_compile.compile(str(source), str(bench.folder / "prog.pyc"))
    if "REEFWATCH_TEST_PYTHON" not in os.environ:
        bench.twins("prog.pyc")


MODULES = {
    "pkg/__init__.py": "import sys; print('pkg sees', sys.argv)",
    "pkg/__main__.py": "from . import part; import sys; print('main', sys.argv, __spec__.name)",
    "pkg/part.py": "value = 3",
    "pkg/tool.py": """
        from .part import value
        import sys
        print(sys.argv, sys.path[0], __name__, __package__, __spec__.name, __file__, value)
        print(list(globals()), __cached__ is not None)
        """,
    "pkg/bad.py": "def f(): raise ValueError('x')\nf()",
    "pkg/wrong.py": "a b\n",
    "empty/__init__.py": "",
    "exits/__init__.py": "raise SystemExit('from init')",
    "exits/tool.py": "",
    "early/__init__.py": "from . import tool",
    "early/tool.py": "print('tool as', __name__)",
}


@pytest.mark.parametrize(
    "name",
    [
        *("pkg", "pkg.tool", "pkg.bad", "pkg.wrong", "pkg.none", "none", "none.at.all", "empty"),
        *("exits.tool", "early.tool", "pkg.tool.py", "this", "pkg.", ".pkg"),
    ],
)
def test_a_module(bench, name):
    for path, text in MODULES.items():
        bench.write(path, text)
    bench.twins("-m", name, "--claim", "x")


def test_a_name_beside_the_script_goes_before_ours(bench):
    for name in ("json", "argparse", "datetime", "difflib", "jinja2", "random"):
        bench.write(f"{name}.py", f"print('my own {name}')\nvalue = 1")
    bench.write("prog.py", "import json, argparse, random; print(json.value, random.value)")
    plain, watched = bench.plain("prog.py"), bench.watched("prog.py")
    assert b"my own json" in plain.stdout
    assert watched.stdout == plain.stdout
    assert bench.users(watched.stderr) == plain.stderr


def test_the_environment_is_left_alone(bench):
    bench.write("prog.py", "import os; print(sorted(os.environ.items()))")
    bench.twins("prog.py")


def test_a_pipe_as_script(bench):
    command = "{} <(echo 'import sys; print(len(sys.argv), __name__)') a"
    for runner in ("$PY", "$PY -m reefwatch run --quiet"):
        bench.environ["PY"] = bench.environ.get("REEFWATCH_TEST_PYTHON") or os.sys.executable
        done = bench.run(["bash", "-c", command.format(runner)])
        assert done.stdout == b"2 __main__\n"


def test_unbuffered_order_of_the_streams(bench):
    bench.write("prog.py", "import sys\nprint('a')\nprint('b', file=sys.stderr)\n1/0")
    bench.twins("prog.py")
    bench.environ["PYTHONUNBUFFERED"] = "1"
    bench.twins("prog.py")


def test_safe_path(bench):
    bench.environ["PYTHONSAFEPATH"] = "1"
    bench.write("prog.py", "import sys; print(sys.argv, [p for p in sys.path if 'wt' not in p])")
    bench.twins("prog.py")
