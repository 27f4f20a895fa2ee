"""A reference is recorded without changing the run, and what leaves it is named."""

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

import reefwatch  # noqa: E402
from reefwatch.core.errors import UsageError  # noqa: E402
from reefwatch.gather.numerics.reference import Rows  # noqa: E402
from reefwatch.store.bundle import Bundle  # noqa: E402

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "verify"))
import numerics_reference as bank  # noqa: E402

FAULTLAB = ROOT / "tests" / "data" / "faultlab" / "run_one.py"


@pytest.fixture(scope="module", params=[("cnn", "fp32"), ("rnn", "bf16")])
def reference(request, tmp_path_factory):
    name, dtype = request.param
    place = tmp_path_factory.mktemp("refs") / f"{name}-{dtype}"
    bank.record(name, dtype, place, 1)
    return name, dtype, place


def test_recording_changes_nothing(tmp_path):
    def run(watch):
        program = bank.Program("cnn", "bf16")
        with watch:
            program.run()
        return [p.detach().clone() for p in program.model.parameters()], torch.get_rng_state()

    plain, state = run(contextlib.nullcontext())
    seen, after = run(reefwatch.watch(exam=30, out=tmp_path / "out", record=tmp_path / "ref"))
    assert torch.equal(state, after)
    assert all(torch.equal(a, b) for a, b in zip(plain, seen, strict=True))
    assert Bundle(tmp_path / "ref").head["steps"] == [0, 1, 2, 4]


@pytest.mark.parametrize("seed", [0, 5])
def test_the_healthy_program_holds_also_from_another_seed(reference, seed, tmp_path):
    name, dtype, place = reference
    report = bank.watched(bank.Program(name, dtype, seed), tmp_path, against=place)
    assert bank.told(report) == []
    held = {o.code: o.verdict.value for o in report.outcomes if o.code.startswith("REF")}
    assert held["REF002"] == held["REF003"] == held["REF004"] == "held"
    fed = report.records[0].fact("numerics.reference").value["fed"]
    assert ("fed" in fed) == (seed != 0)


def test_following_gives_the_reference_s_own_numbers(reference, tmp_path):
    name, dtype, place = reference
    program = bank.Program(name, dtype, seed=5)
    report = bank.watched(program, tmp_path, against=place)
    curve = report.records[0].fact("numerics.curve").value
    assert curve["here"][:3] == curve["there"][:3]


def test_faults_of_each_kind_are_found_and_located(reference, tmp_path):
    name, dtype, place = reference
    kinds = {}
    for fault in bank.faults(name, dtype):
        kinds.setdefault(fault.kind, fault)
    wrong = []
    for fault in kinds.values():
        program = bank.Program(name, dtype)
        fault.put(program)
        found = bank.told(bank.watched(program, tmp_path, against=place))
        if not bank.located(fault, found):
            wrong.append((fault.kind, fault.site, found))
    assert not wrong


@pytest.mark.serial
def test_on_the_command_line_with_noise(tmp_path):
    def run(*options, fault="none"):
        command = [sys.executable, "-m", "reefwatch", "run", "--quiet", *options]
        return subprocess.run(
            [*command, "--out", str(tmp_path / "out"), str(FAULTLAB), "mlp", fault, "4"],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )

    ref = str(tmp_path / "ref")
    assert run("--record", ref, "--perturb", "1").returncode == 0
    head = Bundle(Path(ref)).head
    assert head["noise"] == 1 and head["rerun"] and len(head["band"]) == 4
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "ref"]
    assert run("--against", ref).returncode == 0
    assert run("--against", ref, fault="customop").returncode == 3
    told = run("--against", str(tmp_path / "none"))
    assert "is no reference" in told.stderr and "Traceback" not in told.stderr
    assert told.returncode == 2 and told.stdout == ""  # nothing ran


def test_several_ranks_are_refused(tmp_path, monkeypatch):
    bank.record("cnn", "fp32", tmp_path / "ref", 0)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="follows one process"):
        reefwatch.watch(against=tmp_path / "ref", out=tmp_path / "out").__enter__()


def test_what_follows_from_an_error_is_unproven_not_held(reference, tmp_path):
    name, dtype, place = reference
    program = bank.Program(name, dtype)
    bank._channel(program, {"cnn": "net.0", "rnn": "cell"}[name])
    report = bank.watched(program, tmp_path, against=place)
    told = {o.code: o.verdict.value for o in report.outcomes if o.code.startswith("REF")}
    assert told["REF002"] == "broken"
    assert told["REF003"] == told["REF004"] == "unproven"


def rounding(tiny):
    """A parameter half of whose gradient is zero; or, on another machine, rounding."""
    torch.manual_seed(0)
    model = torch.nn.Linear(32, 1, bias=False)
    x = torch.randn(8, 32)
    x[:, 16:] = 0
    signs = torch.randn(16).numpy().copy()

    def rounded(gradient):
        kept = gradient.clone()
        kept.numpy()[0, 16:] += signs * tiny  # past torch, as a kernel would
        return kept

    model.weight.register_hook(rounded)
    return model, torch.optim.Adam(model.parameters(), 1e-2), x


def trained(tiny, spoil=False, **asked):
    model, optimizer, x = rounding(tiny)
    watch = reefwatch.watch(exam=60, budget=0, **asked)
    with watch:
        for _ in range(4):
            loss = (model(x) - 1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if spoil:
                model.weight.data[0, 3] += 1e-2
    return watch.report


def test_whole_steps_of_rounding_are_no_finding_and_other_steps_are(tmp_path):
    place = tmp_path / "ref"
    trained(0.0, record=place, out=tmp_path / "a")
    head = place / "reference.json"
    # as if recorded elsewhere: equal machines are held to equal bits
    head.write_text(head.read_text().replace('"device"', '"was"'))
    healthy = trained(1e-12, against=place, out=tmp_path / "b")
    rows = [e.data for e in healthy.records[0].events if e.kind == "reference.row"]
    parts = [row for row in rows if row["phase"] == "parameter"]
    assert max(row["drift"] for row in parts) > 0
    assert bank.told(healthy) == []
    wrong = trained(1e-12, spoil=True, against=place, out=tmp_path / "c")
    assert [code for code, *_ in bank.told(wrong)] == ["REF004"]


def test_a_program_without_torch_leaves_no_part_of_a_reference(tmp_path):
    script = tmp_path / "plain.py"
    script.write_text("print(1)\n")
    command = [sys.executable, "-m", "reefwatch", "run", "--quiet", "--out", str(tmp_path / "out")]
    told = subprocess.run(
        [*command, "--record", str(tmp_path / "ref"), str(script)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.stdout == "1\n" and told.returncode == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "plain.py"]


def test_what_a_killed_writer_left_is_swept_by_the_next(tmp_path):
    left = tmp_path / ".ref.999999999.part"
    left.mkdir()
    bank.watched(bank.Program("cnn", "fp32"), tmp_path / "out", record=tmp_path / "ref")
    assert not left.exists() and (tmp_path / "ref").is_dir()


def elsewhere(monkeypatch):
    """From here on, runs take place on another machine than the references were recorded on."""
    about = Rows.about
    monkeypatch.setattr(Rows, "about", lambda rows: {**about(rows), "device": {"kind": "other"}})


def test_attention_is_no_draw_and_is_not_put_in_place(tmp_path, monkeypatch):
    """Devices give other outputs beside the result: counted as draws, layers were swapped."""
    bank.record("vit", "fp32", tmp_path / "ref", 1)
    elsewhere(monkeypatch)
    with sdpa_kernel(SDPBackend.MATH):
        report = bank.watched(bank.Program("vit", "fp32"), tmp_path, against=tmp_path / "ref")
    assert bank.told(report) == []
    value = report.records[0].fact("numerics.reference").value
    assert not value["same_machine"]
    assert set(value["fed"]) == {"same"}
    assert not any("/random/" in name for name in Bundle(tmp_path / "ref").names())


def test_masks_without_a_counterpart_prove_nothing(tmp_path, monkeypatch):
    """A device that draws its masks by another op cannot be given those of the reference."""

    def program(own):
        torch.manual_seed(0)
        layer = torch.nn.Linear(8, 8)
        optimizer = torch.optim.SGD(layer.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            hidden = layer(torch.ones(4, 8))
            mask = torch.rand(4, 8) < 0.5 if own else torch.bernoulli(torch.full((4, 8), 0.5))
            (hidden * mask).sum().backward()
            optimizer.step()

    def watched(own, **asked):
        watch = reefwatch.watch(exam=30, budget=0, out=tmp_path / "out", **asked)
        with watch:
            program(own)
        return watch.report

    watched(False, record=tmp_path / "ref")
    report = watched(True, against=tmp_path / "ref")
    told = {o.code: o for o in report.outcomes if o.code.startswith("REF00")}
    assert told["REF002"].verdict.value == "unproven"
    assert "random draws of this run (aten.rand.default first)" in told["REF002"].reason


def test_after_the_exam_the_ladder_is_heard_by_the_reference_alone(tmp_path):
    watch = reefwatch.watch(exam=0, budget=0, out=tmp_path / "out", record=tmp_path / "ref")
    with watch:
        bank.Program("cnn", "fp32").run()
    record = watch.report.records[0]
    assert record.fact("numerics.recorded").value["steps"] == [0, 1, 2, 4]
    assert 0 < record.fact("numerics.recorded").value["read"]["slices"] <= 1
    assert "no step was examined" in record.fact("precision.ops").reason
