"""The public names, and how they are documented and loaded."""

from __future__ import annotations

import inspect
import pickle

import pytest

import reefwatch


def test_every_public_name_is_there_and_documented():
    for name in reefwatch.__all__:
        assert inspect.getdoc(getattr(reefwatch, name)), name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        reefwatch.nothing  # noqa: B018


def test_errors_are_of_one_family():
    assert issubclass(reefwatch.Breach, reefwatch.ReefwatchError)
    assert str(pickle.loads(pickle.dumps(reefwatch.Breach("words")))) == "words"


def test_explain_is_text():
    listed = reefwatch.explain()
    first = listed.splitlines()[0].split()[0]
    assert reefwatch.explain(first.lower()).startswith(first)


def test_a_report_needs_a_folder(tmp_path):
    with pytest.raises(reefwatch.ReefwatchError, match="no run to report on"):
        reefwatch.report([])
    with pytest.raises(reefwatch.ReefwatchError, match="no record in it"):
        reefwatch.report(tmp_path)
