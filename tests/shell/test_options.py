"""Where our options end and the script's begin; how times and shares are written."""

from __future__ import annotations

import pytest

from reefwatch.core.errors import UsageError
from reefwatch.shell import options
from reefwatch.shell.commands import run


@pytest.mark.parametrize(
    ("words", "ours"),
    [
        ("train.py --claim x", ""),
        ("--claim bf16 train.py --help", "--claim bf16"),
        ("--claim=bf16 train.py -m x", "--claim=bf16"),
        ("--quiet --exam 3s train.py", "--quiet --exam 3s"),
        ("--strict train.py", "--strict=all"),
        ("--strict=loop train.py", "--strict=loop"),
        ("--exit-code=script train.py", "--exit-code=script"),
        ("-m pkg --claim x", "-m pkg"),
        ("-mpkg --claim x", "-mpkg"),
        ("--quiet -m pkg.tool a", "--quiet -m pkg.tool"),
        ("--out d -- -odd-name.py a", "--out d"),
    ],
)
def test_the_first_word_that_is_no_option_is_the_script(words, ours):
    got, program = run.split(words.split(), run.parser())
    assert got == ours.split()
    assert (
        program
        == words.replace("--strict ", "--strict=all ").split()[-len(program) or None :][
            : len(program)
        ]
    )
    run.parser().parse_args(got)


@pytest.mark.parametrize(
    ("text", "value"), [("20s", 20), ("20", 20), ("500ms", 0.5), ("2m", 120), ("1.5h", 5400)]
)
def test_seconds(text, value):
    assert options.seconds(text) == value


@pytest.mark.parametrize("text", ["", "s", "20 days", "-3s", "1.2.3", "nan"])
def test_no_seconds(text):
    with pytest.raises(UsageError):
        options.seconds(text)


@pytest.mark.parametrize(("text", "value"), [("2%", 0.02), ("0.02", 0.02), ("0", 0.0)])
def test_share(text, value):
    assert options.share(text) == value


@pytest.mark.parametrize("text", ["100%", "1", "-1%", "nan", "%", "2 percent", "inf"])
def test_no_share(text):
    with pytest.raises(UsageError):
        options.share(text)
