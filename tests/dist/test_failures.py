"""What fails around the ranks is named, and nothing is left running."""

import pytest

pytestmark = pytest.mark.serial


@pytest.mark.parametrize("name", ["a worker is killed", "a wrong MASTER_ADDR"])
def test_a_failure_is_named(bars, name):
    met, codes, seconds, said, left = bars.dist_failures.verdict(name)
    assert met, f"{codes}, {seconds:.0f} s, {left} left: {said}"
