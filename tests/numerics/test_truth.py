"""`--truth` on whole steps: healthy ones pass, kernels made wrong are named."""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import reefwatch  # noqa: E402
from reefwatch.core.finding import Verdict  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts" / "verify"))
import numerics_faults as bank  # noqa: E402

CASES = [(model, dtype) for model in bank.MODELS for dtype in ("fp32", "bf16", "fp16")]


def watched(step, folder, steps=3):
    watch = reefwatch.watch(exam=60, budget=0, truth=True, out=folder)
    with watch:
        for _ in range(steps):
            step()
    return watch.report


def numerics(report):
    return {o.code: o for o in report.outcomes if o.contract == "numerics"}


@pytest.mark.parametrize(("model", "dtype"), CASES)
def test_a_healthy_step_holds_and_no_formula_fails(model, dtype, tmp_path):
    report = watched(bank.Step(model, dtype, seed=7), tmp_path)
    told = numerics(report)
    assert {code: o.verdict for code, o in told.items()} == {
        "NUM001": Verdict.HELD,
        "NUM002": Verdict.HELD,
    }
    fact = report.records[0].fact("numerics.truth").value
    assert fact["judged"] >= 0.9 * fact["of"]
    assert not [reason for reason in fact["unproven"] if "failed" in reason]


@pytest.mark.parametrize(("model", "dtype"), [("cnn", "bf16"), ("transformer", "fp32")])
def test_the_run_is_the_same_bit_for_bit(model, dtype, tmp_path):
    def run(watch):
        step = bank.Step(model, dtype, seed=3)
        with watch:
            for _ in range(4):
                step()
        return [p.detach().clone() for p in step.model.parameters()], torch.get_rng_state()

    import contextlib

    plain, state = run(contextlib.nullcontext())
    seen, after = run(reefwatch.watch(exam=60, truth=True, out=tmp_path))
    assert torch.equal(state, after)
    assert all(torch.equal(a, b) for a, b in zip(plain, seen, strict=True))


FAULTS = [
    ("cnn", "fp32", "aten.convolution.default", "one channel 1 % off"),
    ("cnn", "bf16", "aten.convolution_backward.default", "slices swapped"),
    ("cnn", "bf16", "aten.native_batch_norm.default", "factor"),
    ("transformer", "bf16", "aten.native_layer_norm.default", "offset"),
    ("transformer", "bf16", "aten.mm.default", "too few bits"),
    ("transformer", "fp16", "aten.gelu.default", "bit flipped in a tile"),
    ("transformer", "fp32", "aten._log_softmax.default", "tail lost"),
    ("transformer", "fp32", "aten.embedding_dense_backward.default", "shifted by one"),
    ("rnn", "fp16", "aten.addmm.default", "stale buffer"),
]


@pytest.mark.parametrize(("model", "dtype", "op", "kind"), FAULTS)
def test_a_kernel_made_wrong_is_named(model, dtype, op, kind, tmp_path):
    step = bank.Step(model, dtype, seed=5)
    (site, *_) = [site for site in bank.sites(step) if site.op == op]
    with bank.Fault(site, kind, seed=11) as fault:
        report = watched(step, tmp_path)
    assert fault.changed
    named = {f.place.op for o in numerics(report).values() for f in o.findings}
    assert op in named


def test_without_truth_nothing_is_claimed_of_numbers(tmp_path):
    step = bank.Step("cnn", "fp32", seed=1)
    watch = reefwatch.watch(exam=5, out=tmp_path)
    with watch:
        step()
        step()
    assert not numerics(watch.report)


def test_an_op_of_ones_own_is_unproven_by_name(tmp_path):
    library = torch.library.Library("reeftest", "DEF")
    library.define("half(Tensor x) -> Tensor")
    library.impl("half", lambda x: x * 0.5, "CPU")
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], 0.1)

    def step():
        weight.grad = torch.ops.reeftest.half(weight.detach())
        optimizer.step()

    fact = watched(step, tmp_path).records[0].fact("numerics.truth").value
    library._destroy()
    assert "reeftest::half has no second formula" in fact["unproven"]


def test_a_second_run_tells_what_stays_from_what_was_of_the_moment(tmp_path):
    def why(spoil):
        step = bank.Step("transformer", "fp32", seed=5)
        (site, *_) = [s for s in bank.sites(step) if s.op == "aten.addmm.default"]
        with bank.Fault(site, "factor", seed=11) as fault:
            fault.spoil = spoil
            report = watched(step, tmp_path / spoil.__name__, steps=1)
        assert fault.changed
        (finding,) = [f for o in numerics(report).values() for f in o.findings][:1]
        return finding.why

    calls = []

    def once(out, random):
        calls.append(None)
        if len(calls) == 1:
            bank.factor(out, random)

    def drifting(out, random):
        calls.append(None)
        out.mul_(1 + 0.01 * len(calls))

    assert "wrong in the same bits" in why(bank.factor)
    told = why(once)
    assert "it was right: of the moment" in told
    assert "wrong in another way" in why(drifting)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_all_in_16_bits_holds(dtype, tmp_path):
    """Some CPU kernels round statistics and factors to 16 bits before they use them."""
    torch.manual_seed(0)
    nn = torch.nn
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(800, 4))
    model = model.to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)

    def step():
        loss = model(torch.randn(4, 3, 12, 12).to(dtype)).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    report = watched(step, tmp_path)
    assert [f.message for o in numerics(report).values() for f in o.findings] == []


def test_parts_of_split_memory_are_judged_from_before_the_split(tmp_path):
    """A GRU splits its gates into parts of one memory: what spoils a part spoils its source."""
    step = bank.Step("rnn", "fp32", seed=3)
    site = next(site for site in bank.sites(step) if "unsafe_split" in site.op)
    with bank.Fault(site, "one channel 1 % off", seed=5) as fault:
        report = watched(step, tmp_path)
    assert fault.changed
    found = {f.place.op for o in numerics(report).values() for f in o.findings}
    assert "aten.unsafe_split.Tensor" in found


def test_what_an_integer_cannot_hold_is_not_judged_and_the_rest_is(tmp_path):
    values = torch.tensor([1.7, -2.3, float("inf"), float("nan"), -1e30])
    report = watched(lambda: (values * 1).to(torch.int64), tmp_path)
    assert not [f for o in numerics(report).values() for f in o.findings]


@pytest.mark.parametrize("seed", range(4))
def test_gradients_of_attention_that_cancel_are_no_finding(seed, tmp_path):
    """The first causal query sees one key: gradients of q and k are zero but for rounding."""
    torch.manual_seed(seed)
    q, k, v = (torch.randn(4, 8, 24, 16, requires_grad=True) for _ in range(3))

    def step():
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        out.square().sum().backward()

    assert not [f for o in numerics(watched(step, tmp_path)).values() for f in o.findings]
