"""Fixtures for suites, and `pytest --reefwatch-target gfx1100`: Triton kernels on the virtual GPU.

The fixtures `no_fallback`, `matches_fp64`, `compiled_matches` and `matches_reference` run what they
are given and return its result; the test fails when it is wrong, and is skipped, with the reason,
when that cannot be told (docs/ci.md).

The option does nothing when it is not given. With it, torch poses as a machine with that card
before the tests are imported, each launch is executed and held against witnesses, and the verdicts
stand at the end. A broken kernel makes a run fail that would have passed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from reefwatch.core.report import Report

_OPTION = "reefwatch_target"


def pytest_addoption(parser: Any) -> None:
    """The options."""
    group = parser.getgroup("reefwatch")
    group.addoption(
        "--reefwatch-target",
        dest=_OPTION,
        default="",
        metavar="gfx1100,gfx942",
        help="run Triton kernels on a virtual AMD GPU of these targets; needs no card",
    )
    group.addoption(
        "--reefwatch-launches",
        dest="reefwatch_launches",
        type=int,
        default=2,
        metavar="N",
        help="launches of each compiled kernel that are held against witnesses (default: 2)",
    )


def pytest_load_initial_conftests(early_config: Any, parser: Any, args: Any) -> None:
    """Begin before anything of the suite is imported."""
    given = early_config.known_args_namespace
    if not getattr(given, _OPTION, ""):
        return
    from reefwatch.core.errors import ReefwatchError

    try:
        early_config.pluginmanager.register(_Bench(given), "reefwatch-bench")
    except ReefwatchError as error:
        raise pytest.UsageError(str(error)) from None


def _checked(ask: Callable[..., Any], folder: Any) -> Callable[..., Any]:
    """`ask` with a folder of its own; its verdicts become outcomes of the test."""
    from reefwatch.api import fixtures

    def check(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        try:
            return ask(folder.mktemp("reefwatch", numbered=True), *args, **kwargs)
        except fixtures.Unproven as reason:
            pytest.skip(f"unproven: {reason}")
        except fixtures.Departs as wrong:
            text = str(wrong)
        pytest.fail(text, pytrace=False)

    return check


@pytest.fixture
def no_fallback(tmp_path_factory: Any) -> Callable[..., Any]:
    """`no_fallback(function, *args)`: no math attention, no eager frame, no naive kernel."""
    from reefwatch.api import fixtures

    return _checked(fixtures.no_fallback, tmp_path_factory)


@pytest.fixture
def matches_fp64(tmp_path_factory: Any) -> Callable[..., Any]:
    """`matches_fp64(function, *args)`: each op is as near to float64 as rounding allows."""
    from reefwatch.api import fixtures

    return _checked(fixtures.matches_fp64, tmp_path_factory)


@pytest.fixture
def compiled_matches(tmp_path_factory: Any) -> Callable[..., Any]:
    """`compiled_matches(function, *args, backend=...)`: compiled, it gives what it gave."""
    from reefwatch.api import fixtures

    return _checked(fixtures.compiled_matches, tmp_path_factory)


@pytest.fixture
def matches_reference(tmp_path_factory: Any) -> Callable[..., Any]:
    """`matches_reference(function, *args, reference=...)`: another callable, or a recorded run."""
    from reefwatch.api import fixtures

    return _checked(fixtures.matches_reference, tmp_path_factory)


class _Bench:
    """The plugin, when it was asked for."""

    def __init__(self, given: Any) -> None:
        from reefwatch.api.kernels import modelled
        from reefwatch.experiments.kernels.bench import Bench

        self.targets = modelled(getattr(given, _OPTION).split(","))
        self.bench = Bench(self.targets, {"launches": given.reefwatch_launches})
        self.columns: list[Any] = [self.bench.column]
        self.report: Report | None = None
        self.bench.open()

    def pytest_runtest_setup(self, item: Any) -> None:
        self.bench.begin(item.nodeid)

    def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
        if call.when != "call" or (call.excinfo and call.excinfo.typename == "Skipped"):
            return
        error = call.excinfo.value if call.excinfo else None
        place = (str(item.path), int(item.location[1] or 0) + 1)
        self.bench.end(item.nodeid, error, place)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        """What a worker of pytest-xdist saw."""
        from reefwatch.experiments.kernels.matrix import Column

        told = getattr(node, "workeroutput", {}).get("reefwatch")
        if told:
            self.columns.append(Column(**json.loads(told)))

    def pytest_sessionfinish(self, session: Any, exitstatus: int) -> None:
        from reefwatch.api.kernels import judged
        from reefwatch.core.report import ExitPolicy, exit_code
        from reefwatch.experiments.kernels import bench

        worker = getattr(session.config, "workeroutput", None)
        if worker is not None:
            worker["reefwatch"] = json.dumps(asdict(self.bench.column), default=str)
            return
        record = bench.record(self.targets, self.columns, "pytest")
        self.report = judged(record)
        broken = exit_code(self.report, ExitPolicy())
        if exitstatus == 0 and broken:
            session.exitstatus = 1

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.report is None:
            return
        from reefwatch.show import kernel_verdicts, text

        terminalreporter.section("reefwatch")
        terminalreporter.write(kernel_verdicts.text(self.report.facts))
        terminalreporter.write(text.render(self.report, color=False, width=100))

    def pytest_unconfigure(self) -> None:
        self.bench.close()
