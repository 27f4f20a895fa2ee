"""A card for tests: Triton launches on the virtual GPU and writes the result back, nothing else."""

from contextlib import contextmanager

import torch

from reefwatch.experiments.kernels import driver, execution
from reefwatch.experiments.kernels.pose import Pose
from reefwatch.gather.kernels import arguments

TARGET = "gfx1100"


@contextmanager
def card(damage=None):
    """`damage(compiled, contents)` may change what a launch gives."""
    from triton.runtime.driver import driver as active

    def launch(compiled, grid, given):
        made = arguments.of(compiled.src.signature, compiled.constants, given)
        ran = execution.run(compiled, grid, made)
        assert ran.status == "ran", ran.reason
        if damage is not None:
            damage(compiled, ran.contents)
        made.put(ran.contents)

    driver.unlinked()
    before = active._active
    active.set_active(driver.Driver(torch, [TARGET], launch))
    try:
        with Pose(torch, TARGET):
            yield
    finally:
        active._active = before
