"""Watched equals unwatched, bit for bit: the part of the zoo that runs in every test run."""

import importlib.util
import sys
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location(
    "zoo_compare", Path(__file__).with_name("compare.py")
)
compare = sys.modules[_spec.name] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(compare)


@pytest.mark.parametrize("animal", [a for a in compare.ZOO if a.fast], ids=lambda a: a.name)
def test_watched_equals_unwatched(animal):
    found = compare.compare(animal)
    assert not found.differences, "\n".join(found.differences)
    assert not found.blind, "\n".join(found.blind)


def test_every_script_is_compared():
    scripts = {path.stem for path in compare.SCRIPTS.glob("*.py")} - {"ending"}
    assert scripts == {animal.name for animal in compare.ZOO}
    assert len(compare.ZOO) == len(scripts)


def run(code=0, stdout=b"", stderr=b""):
    return compare.Ran(code, stdout, stderr, 0.0)


@pytest.mark.parametrize(
    ("plain", "watched", "words"),
    [
        (run(7), run(0), "exit code 0 instead of 7"),
        (run(stdout=b"loss 0x1.0p+0\n"), run(stdout=b"loss 0x1.1p+0\n"), "+loss 0x1.1p+0"),
        (run(stderr=b"Traceback 1\n"), run(stderr=b"Traceback 1\nmore\n"), "+more"),
    ],
)
def test_a_difference_is_found(plain, watched, words):
    found = compare.Comparison(compare.ZOO[0], plain, watched, [])
    compare._differ(found)
    assert any(words in difference for difference in found.differences)


def test_times_in_the_log_of_torch_are_no_difference():
    one = run(stderr=b"W1130 14:16:57.159000 228 torch/x.py:1] [1/0] ignored\n")
    two = run(stderr=b"W1130 14:17:11.822000 229 torch/x.py:1] [1/0] ignored\n")
    found = compare.Comparison(compare.ZOO[0], one, two, [])
    compare._differ(found)
    assert not found.differences


def test_a_run_that_was_not_looked_at_does_not_count():
    found = compare.Comparison(compare.ZOO[0], run(), run(), [compare.Record()])
    compare._see(found)
    assert found.blind == ["0 steps examined of 20 at least"]
