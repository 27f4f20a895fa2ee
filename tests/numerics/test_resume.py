"""A resumption is compared with what it should be; what was not restored is named."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from reefwatch.core.errors import ReefwatchError, UsageError  # noqa: E402
from reefwatch.core.fact import Unknown  # noqa: E402
from reefwatch.core.finding import Verdict  # noqa: E402
from reefwatch.core.record import Record  # noqa: E402
from reefwatch.experiments.numerics import folders, resume  # noqa: E402
from reefwatch.experiments.numerics.continuation import facts  # noqa: E402
from reefwatch.judge import engine  # noqa: E402

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "verify"))
import numerics_resume as lab  # noqa: E402

BEGINS = 4


def row(update, full=False):
    """A row as the instrument writes it: all of it follows from the number of the update."""
    values = {
        "weights": {"Net.fc.weight": [f"w{update}", 1.0 + update], "Net.norm.mean": ["m", 0.0]},
        "buffers": ["Net.norm.mean"],
        "optimizer": {"Adam.fc.weight.exp_avg": [f"a{update}", 0.1], "Adam.group 0.eps": 1e-8},
        "scheduler": {"StepLR.last_epoch": update // 2, "StepLR.gamma": 0.5},
        "scaler": {"GradScaler.scale": 1024.0 * update},
        "gradient": {"fc.weight": [f"g{update}", 0.2]},
        "loaders": [{"sampler": "RandomSampler", "own": False}],
    }
    return {
        "update": update,
        "weights": f"w{update}",
        "rates": {"Adam.group 0.lr": 0.1 / (1 + update // 2)},
        "random": {"torch": f"r{update}", "python": "p"},
        "data": [["f32", [8, 4], f"x{update}"], ["i64", [8], f"y{update}"]],
        "drawn": [f"d{update}"],
        "end": False,
        "full": values if full else None,
    }


def lines():
    """(stopped, resumed, whole) of a script that restores all."""
    saves = ({"update": BEGINS, "by": "torch.save", "random": row(BEGINS)["random"]},)
    stopped = {n: row(n, n == BEGINS) for n in range(BEGINS + 1)}
    whole = {n: row(n, n >= BEGINS) for n in range(BEGINS + 4)}
    resumed = {n: {**row(BEGINS + n, True), "update": n} for n in range(4)}
    log = Path("log")
    return (
        resume.Line("stopped", stopped, saves, (), 0, log),
        resume.Line("resumed", resumed, (), (), 0, log),
        resume.Line("whole", whole, (), (), 0, log),
    )


def judged(change=lambda resumed: None, begins=BEGINS):
    stopped, resumed, whole = copy.deepcopy(lines())
    change(resumed.states)
    record = Record({"kind": "resume"}, facts(stopped, resumed, whole, begins))
    outcomes, unclaimed = engine.judge([record])
    return {o.code: o.verdict for o in outcomes}, outcomes, unclaimed


def broken(change):
    return {code for code, verdict in judged(change)[0].items() if verdict is Verdict.BROKEN}


def later(rows, **changes):
    for update in rows.values():
        update.update(changes)


def test_all_restored_holds():
    verdicts, _, unclaimed = judged()
    assert set(verdicts) == {f"REF0{n}" for n in range(10, 17)} and not unclaimed
    assert set(verdicts.values()) == {Verdict.HELD}


@pytest.mark.parametrize(
    ("part", "name", "code"),
    [
        ("weights", "Net.fc.weight", "REF011"),
        ("weights", "Net.norm.mean", "REF011"),
        ("optimizer", "Adam.fc.weight.exp_avg", "REF012"),
        ("scheduler", "StepLR.last_epoch", "REF013"),
        ("scaler", "GradScaler.scale", "REF014"),
    ],
)
@pytest.mark.parametrize("absent", [False, True])
def test_one_value_that_is_lost_is_named(part, name, code, absent):
    def change(rows):
        values = rows[0]["full"][part]
        values.pop(name) if absent else values.update({name: ["other", 7.0]})

    assert broken(change) == {code}
    message = next(o for o in judged(change)[1] if o.code == code).findings[0].message
    assert name in message


def test_the_rate_is_the_scheduler_s_unless_the_optimizer_lost_its_state():
    def rate(rows):
        rows[0]["rates"] = {"Adam.group 0.lr": 0.1}

    def scheduler(rows):
        rate(rows)
        rows[0]["full"]["scheduler"]["StepLR.last_epoch"] = 0

    def optimizer(rows):
        rate(rows)
        rows[0]["full"]["optimizer"].pop("Adam.fc.weight.exp_avg")

    def by_hand(rows):
        rate(rows)
        rows[0]["full"]["scheduler"].clear()

    assert broken(scheduler) == {"REF010", "REF013"}
    assert broken(optimizer) == {"REF010", "REF012"}
    assert "REF013" in broken(by_hand)


def test_other_batches_are_the_sampler_s_or_the_random_state_s():
    def data(rows):
        later(rows, data=[["f32", [8, 4], "other"], ["i64", [8], "y"]])

    def random(rows):
        data(rows)
        later(rows, random={"torch": "fresh", "python": "p"}, drawn=["fresh"])

    assert broken(data) == {"REF015"}
    verdicts, outcomes, _ = judged(random)
    assert verdicts["REF016"] is Verdict.BROKEN and verdicts["REF015"] is Verdict.UNPROVEN
    assert "torch" in next(o for o in outcomes if o.code == "REF016").findings[0].message


def test_a_generator_that_nothing_depends_on_is_no_finding():
    def change(rows):
        later(rows, random={"torch": "fresh", "python": "fresh"})

    assert broken(change) == set()


def test_a_mask_that_only_one_run_was_given_is_no_other_batch():
    def change(rows):
        rows[0]["data"].append(["bool", [4, 4], "causal"])

    assert broken(change) == set()


def test_buffers_that_other_batches_have_changed_are_no_lost_weights():
    def change(rows):
        later(rows, data=[["f32", [8, 4], "other"], ["i64", [8], "y"]])
        rows[0]["full"]["weights"]["Net.norm.mean"] = ["moved", 1.0]

    assert broken(change) == {"REF015"}


def test_what_none_of_the_kinds_explains_is_said():
    def change(rows):
        rows[0]["full"]["gradient"]["fc.weight"] = ["other", 0.1]
        later(dict(list(rows.items())[1:]), weights="elsewhere")

    verdicts, outcomes, _ = judged(change)
    assert [code for code, said in verdicts.items() if said is Verdict.BROKEN] == ["REF010"]
    assert "all six kinds of state were restored" in outcomes[0].findings[0].message


def test_a_script_that_is_not_reproducible_proves_nothing():
    stopped, resumed, whole = lines()
    whole.states[BEGINS]["weights"] = "another"
    told = facts(stopped, resumed, whole, BEGINS)
    assert isinstance(told["resume.weights"], Unknown)
    assert "not reproducible" in told["resume.weights"].reason


def test_a_resumed_run_without_an_update_proves_nothing():
    stopped, resumed, whole = lines()
    resumed.states.clear()
    told = facts(stopped, resumed, whole, BEGINS)
    assert "made no update" in told["resume.continued"].reason


def test_an_older_checkpoint_is_found_by_its_weights():
    stopped, resumed, _ = lines()
    assert resume._begin(stopped, resumed, BEGINS) == BEGINS
    resumed.states[0]["weights"] = "w2"
    assert resume._begin(stopped, resumed, BEGINS) == 2
    resumed.states[0]["weights"] = "w0"  # it began anew
    assert resume._begin(stopped, resumed, BEGINS) == BEGINS


def test_a_folder_is_copied_but_for_what_is_linked(tmp_path):
    here = tmp_path / "here"
    (here / "data").mkdir(parents=True)
    (here / "data" / "big").write_bytes(b"x" * 5000)
    (here / "train.py").write_text("1")
    (here / ".git").mkdir()
    with pytest.raises(UsageError, match="data"):
        folders.weigh(here, (), most=1000)
    assert folders.weigh(here, ("data",), most=1000) == 1
    folders.copy(here, tmp_path / "copy", ("data",))
    made = tmp_path / "copy"
    assert sorted(p.name for p in made.iterdir()) == ["data", "train.py"]
    assert (made / "data").is_symlink() and not (made / "train.py").is_symlink()


def test_without_a_checkpoint_it_says_what_to_do():
    stopped = lines()[0]
    with pytest.raises(ReefwatchError, match="--stop-after"):
        resume._stop(
            resume.Line("stopped", stopped.states, (), (), 0, Path()), resume.Asked(("a",))
        )
    with pytest.raises(ReefwatchError, match="no optimizer"):
        resume._stop(resume.Line("stopped", {}, (), (), 0, Path()), resume.Asked(("a",)))


@pytest.mark.serial
@pytest.mark.parametrize("leave", ["", "optimizer"])
def test_on_the_command_line(leave, tmp_path):
    code, verdicts, report = lab.checked("epochs.py", leave, tmp_path)
    wrong = {name for name, said in verdicts.items() if said != "held"}
    assert wrong == ({"REF010", "REF012"} if leave else set())
    assert code == (3 if leave else 0) and report["command"] == "resume-check"


@pytest.mark.serial
def test_a_script_that_fails_is_one_line(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("raise SystemExit('no data')\n")
    command = [sys.executable, "-m", "reefwatch", "resume-check", "--json", str(script)]
    told = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert told.returncode == 2 and "no data" in told.stderr and "Traceback" not in told.stderr
    with pytest.raises(json.JSONDecodeError):
        json.loads(told.stdout)
