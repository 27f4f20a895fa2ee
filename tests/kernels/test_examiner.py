"""Launches on the virtual GPU: captured, run, held against witnesses, written back."""

# ruff: noqa: E402
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

triton = pytest.importorskip("triton", reason="launches need the triton wheel")
import torch

from reefwatch.core.finding import Verdict
from reefwatch.core.record import Case, Record
from reefwatch.experiments.kernels import bench
from reefwatch.experiments.kernels.examiner import NotRun
from reefwatch.judge import engine
from reefwatch.judge import kernels as judge
from tests.kernels import programs as p


@pytest.fixture
def examined() -> Any:
    """Runs a function on the virtual GPU; the record."""

    def run(
        work: Callable[[], None], targets: tuple[str, ...] = ("gfx1100",), **limits: int
    ) -> Record:
        made = bench.Bench(targets, limits)
        made.open()
        error: BaseException | None = None
        try:
            made.begin("test")
            work()
        except Exception as raised:
            error = raised
        finally:
            made.close()
        made.end("test", error, ("kernel.py", 1))
        return bench.record(targets, [made.column], "test")

    return run


def rows(record: Record) -> list[dict[str, Any]]:
    return [dict(e.data) for e in record.events if e.kind == "kernels.launch"]


def verdicts(record: Record) -> dict[str, Verdict]:
    return {said.target: said.verdict for said in judge.verdicts(Case(record))}


def outcome(record: Record, code: str) -> Any:
    check = next(one for one in engine.load("kernels") if one.code == code)
    return engine.judge_rank(check, record)


def adding(n: int = 1000, block: int = 256) -> Callable[[], None]:
    def work() -> None:
        x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
        out = torch.empty_like(x)
        p.add[(triton.cdiv(n, block),)](x, y, out, n, BLOCK=block)
        assert torch.equal(out, x + y)

    return work


def test_a_kernel_on_three_targets(examined: Any) -> None:
    record = examined(adding(), ("gfx1100", "gfx942", "gfx1201"))
    assert verdicts(record) == dict.fromkeys(("gfx1100", "gfx942", "gfx1201"), Verdict.HELD)
    (row,) = rows(record)
    kinds = {one["kind"] for one in row["subjects"]["gfx942"]["witnesses"]}
    assert {"interpreter", "target", "warps"} <= kinds
    assert row["grid"] == [4, 1, 1]
    assert row["subjects"]["gfx1100"]["scan"]["facts"]["vector registers"] > 0


def test_autotuned_kernels_run_each_candidate(examined: Any) -> None:
    def work() -> None:
        x = torch.randn(6, 200, device="cuda")
        out = torch.empty_like(x)
        p.softmax[(6,)](x, out, 200)
        torch.testing.assert_close(out, torch.softmax(x, 1))

    record = examined(work)
    assert {row["constants"]["BLOCK"] for row in rows(record)} == {512, 1024}
    assert verdicts(record) == {"gfx1100": Verdict.HELD}


def test_heuristics_and_a_one_among_the_arguments(examined: Any) -> None:
    def work() -> None:
        for n in (256, 100, 1):
            x = torch.randn(n, device="cuda")
            out = torch.empty_like(x)
            p.doubled[(1,)](x, out, n, BLOCK=256)
            assert torch.equal(out, 2 * x)

    record = examined(work)
    assert len(rows(record)) == 3
    assert verdicts(record) == {"gfx1100": Verdict.HELD}


def test_the_number_of_programs_is_known(examined: Any) -> None:
    def work() -> None:
        x = torch.arange(10, dtype=torch.int32, device="cuda")
        out = torch.zeros_like(x)
        p.strided[(3, 2)](x, out, 10)
        assert torch.equal(out, x + 2)

    assert verdicts(examined(work)) == {"gfx1100": Verdict.HELD}


def test_views_and_shared_memory(examined: Any) -> None:
    def work() -> None:
        base = torch.randn(1000, device="cuda")
        was = base.clone()
        p.add[(1,)](base[100:], base[100:], base[500:], 100, BLOCK=128)  # in place, overlapping
        assert torch.equal(base[500:600], 2 * was[100:200])
        assert torch.equal(base[:500], was[:500])
        assert torch.equal(base[600:], was[600:])

    assert verdicts(examined(work)) == {"gfx1100": Verdict.HELD}


def test_later_launches_run_and_are_not_examined(examined: Any) -> None:
    def work() -> None:
        for _ in range(4):
            adding()()

    record = examined(work, launches=1)
    assert [row["examined"] for row in rows(record)] == [True, False, False, False]
    assert Case(record).value("kernels.matrix")["examined"] == 1


def test_an_assert_of_the_file_alone_leaves_the_kernel_held(examined: Any) -> None:
    def work() -> None:
        adding()()
        raise AssertionError("a wrong test")

    record = examined(work)
    assert verdicts(record) == {"gfx1100": Verdict.HELD}
    told = outcome(record, "KERN003")
    assert told.verdict is Verdict.BROKEN
    assert "a wrong test" in told.findings[0].message


def test_an_access_outside_is_named_with_its_source_line(examined: Any) -> None:
    def work() -> None:
        x = torch.randn(10, device="cuda")
        p.add[(1,)](x, x, torch.empty_like(x), 16, BLOCK=16)

    record = examined(work, ("gfx1100", "gfx942"))
    told = outcome(record, "KERN002")
    assert told.verdict is Verdict.BROKEN
    line = p.add.fn.__code__.co_firstlineno
    assert {f.place.line - line for f in told.findings} == {3, 4}
    assert all(f.place.file.endswith("programs.py") for f in told.findings)
    assert "not asked" in rows(record)[0]["interpreter"]


def test_unmodelled_assembly_is_not_checked_and_does_not_go_on_silently(examined: Any) -> None:
    ended = []

    def work() -> None:
        x = torch.arange(64, dtype=torch.int32, device="cuda")
        try:
            p.inline_assembly[(1,)](x, torch.empty_like(x), BLOCK=64)
        except NotRun as error:
            ended.append(str(error))
            raise

    record = examined(work)
    assert verdicts(record) == {"gfx1100": Verdict.UNPROVEN}
    assert "v_magic_b32" in ended[0]
    told = outcome(record, "KERN003")
    assert told.verdict is Verdict.UNPROVEN
    assert "was not run to its end" in told.reason


def test_device_print_is_not_checked_and_the_interpreter_stands_in(examined: Any) -> None:
    def work() -> None:
        x = torch.arange(64, dtype=torch.int32, device="cuda")
        out = torch.empty_like(x)
        p.printing[(1,)](x, out, BLOCK=64)
        assert torch.equal(out, x + 1)

    record = examined(work)
    assert verdicts(record) == {"gfx1100": Verdict.UNPROVEN}
    (row,) = rows(record)
    assert row["stood_in"] == "interpreter"
    assert row["subjects"]["gfx1100"]["reason"]


def test_a_grid_that_is_too_large(examined: Any) -> None:
    record = examined(adding(n=1000, block=4), workgroups=100)
    (said,) = judge.verdicts(Case(record))
    assert said.verdict is Verdict.UNPROVEN
    assert "250 workgroups, more than 100" in said.reason


def test_what_does_not_compile_says_so(examined: Any) -> None:
    def work() -> None:
        x = torch.zeros(4, device="cuda")
        p.too_wide[(1,)](x, BLOCK=4)

    record = examined(work)
    (said,) = judge.verdicts(Case(record))
    assert said.verdict is Verdict.UNPROVEN
    assert "does not compile" in said.reason


def test_nothing_launched(examined: Any) -> None:
    told = outcome(examined(lambda: None), "KERN001")
    assert told.verdict is Verdict.UNPROVEN
    assert "launched no Triton kernel" in told.reason


def test_a_damaged_program_is_called_wrong(examined: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that gets one instruction wrong at 4 warps: the interpreter and others object."""
    from triton.backends import backends

    def work() -> None:
        x, out = torch.randn(4, 200, device="cuda"), torch.empty(4, device="cuda")
        p.row_sums[(4,)](x, out, 200, BLOCK=256, num_warps=4)

    backend: Any = backends["amd"].compiler
    make = backend.make_amdgcn

    def wrong(src: Any, metadata: Any, options: Any) -> Any:
        text = make(src, metadata, options)
        return text.replace("v_add_f32", "v_sub_f32", 1) if options.num_warps == 4 else text

    monkeypatch.setattr(backend, "make_amdgcn", staticmethod(wrong))
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    p.row_sums.device_caches.clear()
    record = examined(work)
    p.row_sums.device_caches.clear()
    (said,) = judge.verdicts(Case(record))
    assert said.verdict is Verdict.BROKEN
    assert "interpreter" in said.reason and "warps" in said.reason
    (row,) = rows(record)
    assert "def row_sums" in row["source"]
    assert [name for name, _ in row["inputs"]] == ["x_ptr", "out_ptr", "n", "BLOCK"]


def test_all_is_put_back(examined: Any) -> None:
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    before = JITFunction.run, JITFunction.__call__, Autotuner.prune_configs
    names = set(vars(p))
    examined(adding())
    assert (JITFunction.run, JITFunction.__call__, Autotuner.prune_configs) == before
    assert set(vars(p)) == names
