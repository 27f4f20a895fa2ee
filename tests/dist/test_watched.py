"""Guards in a watched run of several ranks, and what they leave alone."""

import pytest

pytestmark = pytest.mark.serial


@pytest.mark.parametrize(
    "fault", ["clean-fsdp2", "clean-tp", "clean-zero", "one-ulp-zero", "dtype"]
)
def test_a_training_of_two_ranks(bars, fault):
    met, found, why = bars.watched_run(fault)
    assert met, f"{found} {why}"


def test_a_hang_names_the_rank_that_did_not_come(bars):
    met, found, why = bars.watched_run("never-comes")
    assert met, f"{found} {why}"
