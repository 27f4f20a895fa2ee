"""A checkpoint with one batch as a small reference."""

import json
import struct
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import reefwatch  # noqa: E402
from reefwatch.core.errors import UnreadableRecord, UsageError  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts" / "verify"))
import numerics_reference as bank  # noqa: E402

WORDS = {torch.float32: "F32", torch.int64: "I64"}


def saved(path, tensors):
    """A safetensors file, as its format says."""
    header, raw = {}, b""
    for name, tensor in tensors.items():
        part = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        where = [len(raw), len(raw) + len(part)]
        kind = WORDS[tensor.dtype]
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": where}
        raw += part
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + raw)
    return path


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.norm = torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16)
        self.two = torch.nn.Linear(16, 3)

    def forward(self, x):
        return self.two(torch.relu(self.norm(self.one(x))))


def made(seed):
    torch.manual_seed(seed)
    model = Net()
    return model, torch.optim.Adam(model.parameters(), 1e-2)


def step(model, optimizer):
    loader = [(torch.randn(8), torch.randint(0, 3, ())) for _ in range(16)]
    x, y = torch.stack([x for x, _ in loader]), torch.stack([y for _, y in loader])
    out = model(x)
    loss = torch.nn.functional.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    grads = {f"expected.grad.{n}": p.grad.clone() for n, p in model.named_parameters()}
    optimizer.step()
    told = {"x": x, "y": y, "expected.output": out, "expected.loss": loss.reshape(1), **grads}
    return told | {f"expected.param.{n}": p.clone() for n, p in model.named_parameters()}


@pytest.fixture
def reference(tmp_path):
    model, optimizer = made(0)
    checkpoint = saved(
        tmp_path / "c.safetensors",
        {n: t.clone() for n, t in model.state_dict().items()},
    )
    return checkpoint, saved(tmp_path / "b.safetensors", step(model, optimizer))


def followed(reference, out, change=lambda model: None, seed=5, evaluate=False):
    checkpoint, batch = reference
    watch = reefwatch.watch(exam=30, budget=0, out=out, against=checkpoint, batch=batch)
    model, optimizer = made(seed)
    change(model)
    with watch:
        if evaluate:
            model.eval()
            with torch.no_grad():
                model(torch.randn(16, 8))
            model.train()
        for _ in range(3):
            step(model, optimizer)
    return watch.report


@pytest.mark.parametrize("evaluate", [False, True])
def test_the_healthy_model_holds_from_any_seed(reference, tmp_path, evaluate):
    report = followed(reference, tmp_path / "out", evaluate=evaluate)
    told = {o.code: o.verdict.value for o in report.outcomes if o.code.startswith("REF")}
    assert told == dict.fromkeys([f"REF00{n}" for n in range(1, 7)], "held")
    fed = report.records[0].fact("numerics.reference").value["fed"]
    assert fed["fed"] >= 6  # four weights of another seed, and the batch


def test_what_is_wrong_is_found_where_something_was_expected(reference, tmp_path):
    def hook(model):
        model.two.weight.register_hook(lambda g: g * 0.5)

    def eps(model):
        model.norm.eps = 0.1

    found = bank.told(followed(reference, tmp_path / "a", hook))
    assert [code for code, *_ in found] == ["REF003"] and found[0][1] == "two.weight"
    assert {code for code, *_ in bank.told(followed(reference, tmp_path / "b", eps))} == {
        "REF002",
        "REF005",
    }


def test_without_expectations_nothing_is_claimed(reference, tmp_path):
    model, optimizer = made(0)
    told = step(model, optimizer)
    batch = saved(tmp_path / "only.safetensors", {"x": told["x"], "y": told["y"]})
    report = followed((reference[0], batch), tmp_path / "out")
    verdicts = {o.code: o.verdict.value for o in report.outcomes if o.code.startswith("REF")}
    assert {verdicts[f"REF00{n}"] for n in (2, 3, 4, 5)} == {"unproven"}


def test_a_batch_of_another_shape_is_unproven_with_its_name(reference, tmp_path):
    batch = saved(tmp_path / "wide.safetensors", {"x": torch.randn(4, 9)})
    report = followed((reference[0], batch), tmp_path / "out")
    reasons = {o.reason for o in report.outcomes if o.code == "REF002"}
    assert any("could not be put in place: 0/given/0" in reason for reason in reasons)


def test_a_checkpoint_needs_a_batch_and_a_batch_a_checkpoint(reference, tmp_path):
    with pytest.raises(UsageError, match="needs --batch"):
        reefwatch.watch(against=reference[0], out=tmp_path / "out").__enter__()
    with pytest.raises(UsageError, match="--batch goes with"):
        reefwatch.watch(batch=reference[1], out=tmp_path / "out").__enter__()
    (tmp_path / "cut.safetensors").write_bytes(reference[1].read_bytes()[:40])
    with pytest.raises(UnreadableRecord):
        reefwatch.watch(
            against=reference[0], batch=tmp_path / "cut.safetensors", out=tmp_path / "out"
        ).__enter__()
