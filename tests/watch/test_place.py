"""The user's place in a folder that is called like torch, or begins like ours."""

from __future__ import annotations

import pytest

import reefwatch
from reefwatch.gather.loop.place import user_place


@pytest.mark.parametrize("folder", ["/home/me/torch", reefwatch.__path__[0] + "-lab"])
def test_the_users_own_folder(folder):
    names = {"user_place": user_place}
    exec(compile("place = user_place()", f"{folder}/train.py", "exec"), names)
    assert names["place"] == (f"{folder}/train.py", 1)
