"""Processes that a watched program starts find the same `__main__` as with plain python."""

from __future__ import annotations

import pytest

POOL = """
    import multiprocessing as mp, os, sys
    class Thing:
        def __init__(self, n): self.n = n
        def __reduce__(self): return Thing, (self.n,)
    def work(thing):
        main = sys.modules["__main__"]
        return Thing(thing.n * 2), type(thing).__module__, getattr(main, "__file__", None), sys.argv
    if __name__ == "__main__":
        with mp.get_context("{method}").Pool(2) as pool:
            for thing, *rest in pool.map(work, map(Thing, range(3))):
                print(type(thing) is Thing, thing.n, rest)
    """


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_pool(bench, method):
    text = POOL.format(method=method)
    bench.write("prog.py", text)
    bench.write("pkg/__init__.py", "")
    bench.write("pkg/tool.py", text)
    bench.twins("prog.py", "x")
    bench.twins("-m", "pkg.tool", "x")


def test_an_executor_of_processes(bench):
    bench.write(
        "prog.py",
        """
        from concurrent.futures import ProcessPoolExecutor
        def work(n):
            if n == 3: raise ValueError("in the worker")
            return n * n
        if __name__ == "__main__":
            with ProcessPoolExecutor(2) as pool:
                print(list(pool.map(work, range(3))))
                try: pool.submit(work, 3).result()
                except ValueError as error: print(error)
        """,
    )
    bench.twins("prog.py")


def test_a_process_that_exits_with_a_code(bench):
    bench.write(
        "prog.py",
        """
        import multiprocessing as mp, sys
        def work(n): sys.exit(n)
        if __name__ == "__main__":
            for method in ("fork", "spawn"):
                child = mp.get_context(method).Process(target=work, args=(4,))
                child.start(); child.join(); print(child.exitcode)
        """,
    )
    bench.twins("prog.py")


def test_a_spawning_script_without_main_guard(bench):
    bench.write(
        "prog.py",
        """
        import multiprocessing as mp
        print("top", __name__)
        child = mp.get_context("spawn").Process(target=print, args=("never",))
        child.start(); child.join(); print(child.exitcode)
        """,
    )
    plain, watched = bench.plain("prog.py"), bench.watched("prog.py")
    assert b"freeze_support" in plain.stderr
    assert watched.stdout == plain.stdout
    assert watched.returncode == plain.returncode


def test_a_script_that_starts_itself_again(bench):
    bench.write(
        "prog.py",
        """
        import subprocess, sys
        if len(sys.argv) == 1:
            done = subprocess.run([sys.executable, sys.argv[0], "again"], capture_output=True)
            print(done.stdout.decode(), done.returncode)
        else:
            print("again", sys.argv); sys.exit(3)
        """,
    )
    bench.twins("prog.py")
