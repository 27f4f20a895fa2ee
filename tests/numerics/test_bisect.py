"""The first environment that leaves a reference is named, with the op that leaves."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from reefwatch.core.errors import UsageError  # noqa: E402
from reefwatch.experiments.numerics import environments as tries  # noqa: E402

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "verify"))
import numerics_environments as lab  # noqa: E402


@pytest.mark.serial
def test_on_the_command_line_the_first_bad_environment_and_its_op(tmp_path):
    script = lab.script(tmp_path)
    envs = [lab.environment(tmp_path, name, fault) for name, fault in lab.LINE]
    lab.record(tmp_path, script)
    told = lab.bisect(tmp_path, script, envs)
    assert told.returncode == 3, told.stderr
    report = json.loads(told.stdout)
    assert report["facts"]["first"] == str(envs[2])
    broken = [o for o in report["outcomes"] if o["verdict"] == "broken"]
    assert "native_layer_norm" in broken[0]["findings"][0]["place"]["op"]
    told = lab.bisect(tmp_path, script, envs[:2])
    assert told.returncode == 0 and json.loads(told.stdout)["facts"]["first"] is None


def made(count):
    return [tries.Environment(str(n), Path("/bin/true")) for n in range(count)]


@pytest.mark.parametrize("count", range(1, 9))
def test_every_place_is_found_with_few_trials(count):
    for bad in range(count + 1):
        tried = []

        def leaves(one, bad=bad, tried=tried):
            tried.append(one)
            return int(one.name) >= bad

        found = tries.first_that_leaves(made(count), leaves)
        assert (int(found.name) if found else count) == bad
        assert len(tried) == len({one.name for one in tried}) <= count.bit_length() + 1


def test_what_cannot_be_tried_is_passed_over():
    def leaves(one):
        return None if one.name in "0247" else int(one.name) >= 3

    found = tries.first_that_leaves(made(8), leaves)
    assert found is not None and found.name == "3"
    assert tries.first_that_leaves(made(3), lambda one: None) is None


def test_every_environment_is_tried_in_order_when_asked():
    tried = []

    def leaves(one):
        tried.append(one.name)
        return one.name in "13"

    found = tries.first_that_leaves(made(5), leaves, every=True)
    assert found is not None and found.name == "1" and tried == list("01234")


def test_what_is_no_environment_is_one_line(tmp_path):
    with pytest.raises(UsageError, match="is no environment"):
        tries.environments([str(tmp_path)])


def test_without_a_reference_nothing_runs(tmp_path):
    script = lab.script(tmp_path)
    env = lab.environment(tmp_path, "a", None)
    command = [sys.executable, "-m", "reefwatch", "bisect", "--against", str(tmp_path / "none")]
    told = subprocess.run(
        [*command, "--envs", str(env), str(script)], capture_output=True, text=True, check=False
    )
    assert told.returncode == 2 and "is no reference" in told.stderr
