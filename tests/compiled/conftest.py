"""Small programs under watch, and compilers that are wrong on purpose."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest
import torch

import reefwatch


def rewriting(old, new):
    """A backend that puts one function in the place of another."""

    def backend(graph, examples):
        for node in graph.graph.nodes:
            if node.op == "call_function" and node.target is old:
                node.target = new
        graph.recompile()
        return graph.forward

    return backend


def watched(program, **options):
    """Run it under watch; outcomes by code, mismatches, and the fact `compile.calls`."""
    torch._dynamo.reset()
    options = {"exam": 100.0, "locate": 0.0, "out": options.pop("out"), **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with reefwatch.watch(**options) as watch:
            program()
    record = watch.report.records[0]
    rows = {event.id: event.data for event in record.events if event.kind == "compile.mismatch"}
    return SimpleNamespace(
        outcomes={outcome.code: outcome for outcome in watch.report.outcomes},
        rows=list(rows.values()),
        frames=[event.data for event in record.events if event.kind == "compile.frame"],
        calls=record.fact("compile.calls"),
        facts=record.facts,
    )


@pytest.fixture
def under(tmp_path):
    """`under(program, **options)` runs a program under watch."""

    def run(program, **options):
        return watched(program, **{"out": tmp_path / "run", **options})

    yield run
    torch._dynamo.reset()


@pytest.fixture
def wrong():
    """`wrong(old, new)`: a backend that computes `new` where the program says `old`."""
    return rewriting
