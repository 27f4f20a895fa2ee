"""The table of verbs, and what a wrong command line gets: one line and exit 2."""

from __future__ import annotations

import pytest

from reefwatch.shell import cli


def test_help_lists_every_verb_and_marks_the_planned(reefwatch):
    done = reefwatch("--help")
    assert done.returncode == 0
    assert done.stderr == ""
    made, _, planned = done.stdout.partition("planned: ")
    for verb in cli.VERBS:
        listed = [line for line in made.splitlines() if line.split()[:1] == [verb.name]]
        assert len(listed) == (verb.module is not None)
        assert (verb.name in planned.split()) == (verb.module is None)


def test_no_verb_is_help_on_stderr(reefwatch):
    done = reefwatch()
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage: reefwatch" in done.stderr


def test_version(reefwatch):
    from reefwatch import __version__

    assert reefwatch("--version").stdout == f"reefwatch {__version__}\n"


@pytest.mark.parametrize("verb", [verb for verb in cli.VERBS if verb.module is None])
def test_a_planned_verb_says_so(verb, capsys):
    assert cli.main([verb.name, "--anything"]) == 2
    assert capsys.readouterr().err == f"reefwatch: {verb.name}: not in this version yet\n"


@pytest.mark.parametrize("verb", [verb.name for verb in cli.VERBS if verb.module])
def test_a_verb_has_help_on_stdout(reefwatch, verb):
    done = reefwatch(verb, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: reefwatch {verb}")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["rnu"], "there is no verb 'rnu'; did you mean 'run'?"),
        (["qqqqqq"], "there is no verb 'qqqqqq'; `reefwatch --help` lists them"),
        (["run"], "nothing to run: give a script, or -m and a module"),
        (["run", "no.py"], "cannot open 'no.py': No such file or directory"),
        (["run", "--claim", "bf17", "no.py"], "'bf17' is not a known claim; known: fp32, tf32"),
        (["run", "--strict=speed", "no.py"], "'speed' cannot be strict; known: precision"),
        (["run", "--exam", "soon", "x"], "'soon' is not a time such as 20s"),
        (["run", "--exam", "-3s", "x"], "'-3s' is not a time such as 20s"),
        (["run", "--budget", "-3%", "x"], "'-3%' is not a share such as 2%"),
        (["run", "--budget", "300%", "x"], "'300%' is not a share such as 2%"),
        (["run", "--json", "/", "x"], "--json /: a folder, not a file"),
        (["run", "--html", "no/x.html", "x"], "--html no/x.html: there is no folder"),
        (["run", "--out", "", "x"], "--out: give the name of a folder"),
        (["report", "--write-baseline", "b.json", "d"], "a baseline needs a reason: --reason TEXT"),
        (["report", "no-such-folder"], "no-such-folder"),
        (["explain", "PREC991"], "there is no check 'PREC991'; near: PREC"),
        (["explain", "X"], "there is no check 'X'; `reefwatch explain` lists all"),
    ],
)
def test_a_wrong_command_line_is_one_line(argv, words, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert cli.main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("reefwatch: ")
    assert words in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_script_given_as_verb_is_told_how(reefwatch, tmp_path):
    (tmp_path / "train.py").write_text("")
    assert "to run it: reefwatch run train.py" in reefwatch("train.py").stderr


def test_explain_prints_the_page_and_the_list(reefwatch):
    listed = reefwatch("explain").stdout
    assert "PREC001" in listed
    page = reefwatch("explain", "prec001").stdout
    for word in ("PREC001", "Why:", "Fix:", "Source:"):
        assert word in page


def test_a_fault_of_ours_is_one_line(monkeypatch, capsys):
    monkeypatch.delenv("REEFWATCH_DEBUG", raising=False)

    def broken(name, argv):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(cli, "_call", broken)
    assert cli.main(["explain"]) == 2
    assert capsys.readouterr().err == (
        "reefwatch: ZeroDivisionError: oops (this is a fault of reefwatch)\n"
    )
