"""Child processes that crash, hang, lie or die: each is a row, and the rest goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reefwatch.core.fact import Evidence, Unknown
from reefwatch.experiments import smoke

CHILD = """
import json, os, sys, time
into = int(sys.argv[1])
def say(**told): os.write(into, (json.dumps(told) + "\\n").encode())
if sys.argv[2] == "about":
    say(devices=[{"name": "x", "arch": "gfx1100"}], arch_list=["gfx1100"], mapped={})
    sys.exit(0)
for test in sys.argv[3:]:
    say(begin=test)
    if test == "gemm":
        print("rocBLAS error: Cannot read TensileLibrary", file=sys.stderr, flush=True)
        os.abort()
    if test == "tall":
        time.sleep(60)
    if test == "conv":
        sys.exit(7)
    if test == "attention":
        os.write(into, b"no json\\n[1]\\n")
    say(test=test, state="wrong" if test == "compile" else "ok", detail="", seconds=0.1)
"""


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "child.py"
    path.write_text(CHILD)
    monkeypatch.setattr(smoke, "_CHILD", path)
    monkeypatch.setattr(smoke.Child.__init__, "__defaults__", (path,))
    return path


def rows(facts: dict[str, Any]) -> dict[str, tuple[str, str]]:
    found = {}
    for name in smoke.TESTS:
        fact = facts[f"smoke.{name}"]
        assert isinstance(fact, Evidence)
        (row,) = fact.value  # type: ignore
        found[name] = (row["state"], row["detail"])
    return found


def test_each_ending_is_told_and_the_rest_goes_on(child: Path) -> None:
    said: list[str] = []
    told = rows(smoke.run(2.0, said.append))
    assert told["sum"] == ("ok", "")
    assert told["gemm"][0] == "crash" and "SIGABRT" in told["gemm"][1]
    assert "TensileLibrary" in told["gemm"][1]
    assert told["tall"][0] == "hang" and "2 s" in told["tall"][1]
    assert told["conv"] == ("error", "ended with 7")
    assert told["attention"][0] == "ok" and told["compile"][0] == "wrong"
    assert told["triton"][0] == told["copies"][0] == "ok"
    assert "cuda:0: tall" in said


def test_a_torch_that_cannot_be_imported_is_a_reason(child: Path) -> None:
    child.write_text("import sys; sys.exit('ImportError: libroctx64.so')")
    facts = smoke.run(5.0)
    assert set(facts) == {f"smoke.{name}" for name in ("import", *smoke.TESTS, "devices")}
    fact, imported = facts["smoke.sum"], facts["smoke.import"]
    assert isinstance(fact, Unknown) and "libroctx64" in fact.reason
    assert isinstance(imported, Evidence)
    (row,) = imported.value  # type: ignore
    assert row["state"] == "error" and "libroctx64" in row["detail"]


def test_a_child_that_is_given_up_is_killed(child: Path) -> None:
    child.write_text(
        "import json, os, sys, time\n"
        'os.write(int(sys.argv[1]), b\'{"begin": "sum"}\\n\')\n'
        "time.sleep(600)\n"
    )
    started = smoke.Child(["cpu", "sum"], 300.0)
    lines = started.lines()
    assert next(lines) == {"begin": "sum"}
    with pytest.raises(KeyboardInterrupt):
        lines.throw(KeyboardInterrupt)
    assert started._process.returncode == -9


def test_a_missing_torch_is_a_reason(child: Path) -> None:
    child.write_text(
        'import os, sys\nos.write(int(sys.argv[1]), b\'{"missing": "torch is not there"}\\n\')'
    )
    fact = smoke.run(5.0)["smoke.sum"]
    assert fact == Unknown("torch is not there")


@pytest.mark.serial
def test_the_tests_hold_on_the_processor() -> None:
    """The real child, on this machine; the compiler's test is left to `make verify-machine`."""
    started = smoke.Child(["cpu", "sum", "gemm", "tall", "conv", "attention", "copies"], 120.0)
    told = {line["test"]: line["state"] for line in started.lines() if "test" in line}
    assert told == {
        "sum": "ok", "gemm": "ok", "tall": "ok", "conv": "ok", "attention": "ok",
        "copies": "skipped",
    }  # fmt: skip


def test_wrong_numbers_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child's tests themselves can fail: torch with one product that is off."""
    torch = pytest.importorskip("torch")
    from reefwatch.experiments.smoke import child as tests

    real = torch.Tensor.__matmul__

    def off(one: Any, other: Any) -> Any:
        got = real(one, other)
        return got if one.dtype == torch.float64 else got * 1.5

    monkeypatch.setattr(torch.Tensor, "__matmul__", off)
    assert tests.one(torch, "gemm", "cpu")["state"] == "wrong"
    monkeypatch.setattr(tests, "TALL", 8_000)
    assert tests.one(torch, "tall", "cpu")["state"] == "wrong"
    monkeypatch.undo()
    real_sum = torch.Tensor.sum
    monkeypatch.setattr(torch.Tensor, "sum", lambda self, *a, **k: real_sum(self, *a, **k) - 1)
    assert tests.one(torch, "sum", "cpu")["state"] == "wrong"
    monkeypatch.undo()
    attend = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        torch.nn.functional, "scaled_dot_product_attention",
        lambda q, *a, **k: attend(q, *a, **k) * (1 if q.dtype == torch.float64 else float("nan")),
    )  # fmt: skip
    assert tests.one(torch, "attention", "cpu")["state"] == "wrong"
    monkeypatch.undo()
    conv = torch.nn.functional.conv2d
    monkeypatch.setattr(
        torch.nn.functional, "conv2d",
        lambda x, w, **k: conv(x, w, **k) if x.dtype == torch.float64 else conv(x, w.flip(3), **k),
    )  # fmt: skip
    assert tests.one(torch, "conv", "cpu")["state"] == "wrong"
