"""Patches are reversible, keep identities, and leave no frame of ours in a traceback."""

import inspect
import pickle
import sys
import traceback
import types
from unittest import mock

import pytest

from reefwatch.gather.patches import Patches, unseen


class Owner:
    def method(self, x):
        """Doubles."""
        if x < 0:
            raise ValueError("negative")
        return 2 * x

    @staticmethod
    def static(x):
        return x + 1

    @classmethod
    def made(cls, x):
        return cls.__name__, x


class Heir(Owner):
    pass


def frames(error):
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def test_replace_and_restore_in_reverse_order():
    patches, plain = Patches(), Owner.__dict__["method"]
    patches.replace(Owner, "method", lambda original: lambda self, x: original(self, x) + 1)
    patches.replace(Owner, "method", lambda original: lambda self, x: original(self, x) * 10)
    assert Owner().method(1) == 30
    patches.restore()
    assert Owner.__dict__["method"] is plain


def test_a_replacement_keeps_its_identity():
    patches = Patches()
    patches.replace(Owner, "method", lambda original: lambda self, x: original(self, x))
    try:
        assert Owner.method.__name__ == "method" and Owner.method.__doc__ == "Doubles."
        assert Owner.method.__module__ == __name__
        assert list(inspect.signature(Owner.method).parameters) == ["self", "x"]
    finally:
        patches.restore()


@pytest.mark.parametrize(("name", "expected"), [("static", 12), ("made", ("Owner", 12))])
def test_static_and_class_methods(name, expected):
    patches, plain = Patches(), Owner.__dict__[name]
    if name == "static":
        patches.replace(Owner, name, lambda original: lambda x: original(x + 10))
    else:
        patches.replace(Owner, name, lambda original: lambda cls, x: original(cls, x + 10))
    assert getattr(Owner, name)(1 if name == "static" else 2) == expected
    patches.restore()
    assert Owner.__dict__[name] is plain


def test_an_inherited_attribute_is_inherited_again():
    patches = Patches()
    patches.replace(Heir, "method", lambda original: lambda self, x: 0)
    assert (Heir().method(1), Owner().method(1)) == (0, 2)
    patches.restore()
    assert "method" not in vars(Heir) and Heir().method(1) == 2


def test_a_later_patch_of_the_user_stays_and_ours_passes_through():
    patches, seen = Patches(), []
    module = types.SimpleNamespace(f=lambda x: x + 1)
    patches.replace(module, "f", lambda original: lambda x: seen.append(x) or original(x))
    with mock.patch.object(module, "f", wraps=module.f) as users:
        module.f(1)
        patches.restore()
        assert module.f is users
        assert module.f(2) == 3
    assert seen == [1]
    assert module.f(3) == 4
    assert seen == [1]


def test_an_object_is_installed_as_it_is():
    patches, thing = Patches(), Owner()
    module = types.SimpleNamespace(f=len)
    assert patches.replace(module, "f", lambda original: thing) is thing
    assert module.f is thing
    patches.restore()
    assert module.f is len


def test_observe_tells_before_and_after_also_when_it_raises():
    patches, seen, owner = Patches(), [], Owner()
    patches.observe(
        Owner, "method", lambda o: seen.append(("before", o)), lambda o: seen.append(("after", o))
    )
    try:
        assert owner.method(4) == 8
        assert seen == [("before", owner), ("after", owner)]
        with pytest.raises(ValueError, match="negative") as caught:
            owner.method(-1)
        assert seen == [("before", owner), ("after", owner)] * 2
    finally:
        patches.restore()
    assert frames(caught.value)[-1] == "method"
    assert len(frames(caught.value)) == 2


def test_observe_shows_the_class_the_original():
    plain, patches = Owner.method, Patches()
    patches.observe(Owner, "method", lambda o: None)
    try:
        assert Owner.method is plain
        assert inspect.ismethod(Owner().method)
    finally:
        patches.restore()
    assert Owner.method is plain


def test_observe_a_function_of_a_module():
    def f(x):
        """Halves."""
        return 1 / x

    patches, seen = Patches(), []
    module = types.SimpleNamespace(f=f)
    patches.observe(module, "f", lambda o: seen.append("before"), lambda o: seen.append("after"))
    assert module.f(2) == 0.5 and seen == ["before", "after"]
    assert module.f.__doc__ == "Halves." and module.f.__wrapped__ is f
    assert str(inspect.signature(module.f)) == "(x)" and callable(module.f)
    assert seen == ["before", "after"]
    with pytest.raises(ZeroDivisionError) as caught:
        module.f(0)
    assert frames(caught.value)[1:] == ["f"]
    kept = module.f
    patches.restore()
    assert module.f is f and kept(4) == 0.25 and len(seen) == 4


def test_an_observed_function_is_pickled_by_name():
    import os.path

    patches = Patches()
    patches.observe(os.path, "basename", lambda o: None)
    try:
        kept = pickle.dumps(os.path.basename)
    finally:
        patches.restore()
    assert pickle.loads(kept) is os.path.basename


def test_an_observed_function_is_a_function_to_those_who_ask():
    import inspect
    import types

    import torch

    original = torch.compile
    patches = Patches()
    patches.observe(torch, "compile", lambda nothing: None)
    try:
        assert isinstance(torch.compile, types.FunctionType)
        assert torch.compile.__code__ is original.__code__
        assert inspect.getsourcefile(torch.compile) == inspect.getsourcefile(original)
        assert inspect.signature(torch.compile) == inspect.signature(original)
    finally:
        patches.restore()
    assert torch.compile is original


def test_no_such_attribute():
    with pytest.raises(AttributeError):
        Patches().replace(Owner, "nothing", lambda original: original)


def through(inner):
    def outer(*args):
        count = 0
        try:
            return inner(*args)
        finally:
            count += 1

    return outer


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 shows every frame")
def test_an_unseen_function_is_in_no_traceback_and_in_no_stack():
    def fail():
        raise ValueError("inside")

    def stack():
        return [frame.name for frame in traceback.extract_stack()]

    with pytest.raises(ValueError, match="inside") as caught:
        unseen(through(fail))()
    assert frames(caught.value)[1:] == ["fail"]
    assert "outer" in through(stack)()
    assert "outer" not in unseen(through(stack))()
    assert unseen(through(lambda: sys._getframe(1).f_code.co_name))() == (
        "test_an_unseen_function_is_in_no_traceback_and_in_no_stack"
    )


def test_an_unseen_function_works_as_before():
    seen = unseen(through(lambda a, b: (a, b)))
    assert [seen(n, -n) for n in range(50)] == [(n, -n) for n in range(50)]

    def count(n, *rest, step=1, **more):
        yield n
        yield step

    assert list(unseen(count)(5, step=2)) == [5, 2]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 shows every frame")
def test_a_replacement_is_not_in_a_traceback():
    patches = Patches()
    patches.replace(Owner, "method", lambda original: lambda self, x: original(self, x))
    try:
        with pytest.raises(ValueError, match="negative") as caught:
            Owner().method(-1)
    finally:
        patches.restore()
    assert frames(caught.value)[1:] == ["method"]
