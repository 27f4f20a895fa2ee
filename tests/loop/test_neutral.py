"""A watched loop has the same losses, weights, gradients and random state, bit for bit."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts" / "verify"))
from loop_lab import Adversarial, Classify, recorded
from loop_models import MODELS

sys.path.pop(0)


def _ending(program):
    parts = program.parts.values() if hasattr(program, "parts") else [program.model]
    values = [t.clone() for part in parts for t in part.state_dict().values()]
    grads = [p.grad.clone() for part in parts for p in part.parameters()]
    return [*values, *grads, torch.get_rng_state()]


@pytest.mark.parametrize("kind", [*MODELS, "gan"])
def test_watched_equals_unwatched(kind):
    def make():
        return Adversarial() if kind == "gan" else Classify(kind)

    plain = make()
    plain()
    expected = _ending(plain)
    seen = []

    def program():
        seen.append(make())
        return seen[0]

    record = recorded(program)
    assert not [name for name in record.facts if name.startswith("errored.")]
    for wanted, got in zip(expected, _ending(seen[0]), strict=True):
        assert torch.equal(wanted, got)


def test_nothing_of_the_users_is_kept_alive():
    import gc
    import weakref

    alive = []

    def make():
        program = Classify("mlp")

        def run():
            program()
            alive.extend(weakref.ref(t) for t in program.model.parameters())
            alive.extend(weakref.ref(p.grad) for p in program.model.parameters())
            alive.append(weakref.ref(program.model))

        return run

    from reefwatch.gather import catalog
    from reefwatch.gather.watch import Watch
    from reefwatch.store.writer import Writer

    watch = Watch(
        Writer(None, {}, scrub=False), catalog.instruments({"without": ["perf"]}), options={}
    )
    watch.start()
    try:
        make()()
        gc.collect()
        assert [ref() for ref in alive if ref() is not None] == []
    finally:
        watch.stop({"code": 0, "exception": None})
