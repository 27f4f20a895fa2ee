"""The scheduler in simulated runs: neither allowance is exceeded by more than one examined step."""

from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from reefwatch.gather.budget import PLAIN_AT, PLAIN_EVERY, SETTLE, TIMED_PART, Scheduler


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Run:
    """Steps of `plain` seconds, `layer` more when examined, `fixed` in hooks, `new` learned."""

    def __init__(self, exam, share):
        self.clock = Clock()
        self.scheduler = Scheduler(exam, share, self.clock)
        self.examined = []
        self.exam_cost = self.steady_cost = self.dearest = 0.0
        self.steady_since = None

    def step(self, plain, layer, fixed=0.0, new=False):
        was_exam = not self.scheduler.ended
        looked = self.scheduler.examine(len(self.examined))
        if was_exam and self.scheduler.ended:
            was_exam = False
            self.steady_since = self.clock.now
        seconds = plain + (layer if looked else 0.0)
        self.clock.now += seconds + fixed
        cost = (layer if looked else 0.0) + fixed
        if looked:
            self.dearest = max(self.dearest, cost)
        if was_exam:
            self.exam_cost += cost
        else:
            self.steady_cost += cost
        self.scheduler.step(seconds, looked, layer if looked else 0.0, fixed, new)
        if was_exam and self.scheduler.ended:
            self.steady_since = self.clock.now
        self.examined.append(looked)


def test_the_exam_ends_when_nothing_new_was_learned():
    run = Run(exam=1e9, share=0.0)
    for step in range(60):
        run.step(0.01, 0.005, new=step < 5)
    assert run.scheduler.ended == f"nothing new in {SETTLE} examined steps"
    looked = [n for n, examined in enumerate(run.examined) if examined]
    assert len([n for n in looked if n >= 5]) == SETTLE
    assert all(n % PLAIN_EVERY != PLAIN_AT for n in looked)
    assert not any(run.examined[looked[-1] + 1 :])


def test_what_the_first_steps_cost_is_put_right_when_a_plain_step_was_timed():
    """The layer's clock does not see what it takes to reach it: here, 0.03 s of 0.05 a step."""
    clock = Clock()
    scheduler = Scheduler(1e9, 0.0, clock)
    for step in range(PLAIN_AT):
        assert scheduler.examine(step)
        setup = 7.0 if step == 0 else 0.0  # what else the program did is not ours
        scheduler.step(0.10 + 0.05 + setup, True, 0.02, 0.0, True)
    assert scheduler.exam_spent == approx(0.02 * PLAIN_AT)
    scheduler.step(0.10, False, 0.0, 0.0, False)
    assert scheduler.exam_spent == approx(0.05 * PLAIN_AT)
    scheduler.step(0.15, True, 0.02, 0.0, True)
    assert scheduler.exam_spent == approx(0.05 * (PLAIN_AT + 1))


def test_the_exam_ends_with_its_allowance():
    run = Run(exam=0.1, share=0.0)
    for _ in range(100):
        run.step(0.01, 0.02, new=True)
    assert run.scheduler.ended == "the allowance was spent"
    assert sum(run.examined) == 5


def test_no_exam_no_budget_no_examined_step():
    run = Run(exam=0.0, share=0.0)
    for _ in range(50):
        run.step(0.01, 0.02)
    assert not any(run.examined) and run.scheduler.ended == "no exam was asked for"


def test_the_steady_state_looks_again_and_keeps_to_its_share():
    run = Run(exam=1.0, share=0.02)
    for _ in range(3000):
        run.step(0.040, 0.020)
    since = run.clock.now - run.steady_since
    looked = [n for n, examined in enumerate(run.examined) if examined and n > 60]
    allowed = TIMED_PART * 0.02 * since
    assert 0.5 * allowed < run.steady_cost <= allowed + run.dearest
    assert all(n % 32 == 0 for n in looked)


def test_ranks_that_cost_differently_examine_the_same_steps():
    looked = []
    for layer in (0.018, 0.035):
        run = Run(exam=1.0, share=0.02)
        for _ in range(4000):
            run.step(0.040, layer)
        looked.append({n for n, examined in enumerate(run.examined) if examined and n > 1000})
    few, many = sorted(looked, key=len)
    assert few and few <= many


def test_a_validation_pass_in_an_examined_step_is_not_charged():
    run = Run(exam=10.0, share=0.02)
    for _ in range(10):
        run.step(0.01, 0.001, new=True)
    before = run.scheduler.exam_spent
    assert run.scheduler.examine(10)
    run.scheduler.step(60.0, True, 0.001, 0.0, True)
    assert run.scheduler.exam_spent - before < 0.01


def test_what_every_step_costs_leaves_less_for_looking():
    free, loaded = Run(exam=0.5, share=0.02), Run(exam=0.5, share=0.02)
    for _ in range(4000):
        free.step(0.01, 0.005)
        loaded.step(0.01, 0.005, fixed=0.00015)
    assert sum(loaded.examined) < sum(free.examined)
    since = loaded.clock.now - loaded.steady_since
    assert loaded.steady_cost <= 0.02 * since + loaded.dearest


costs = st.floats(1e-5, 0.5)


@settings(deadline=None, max_examples=150)
@given(
    exam=st.floats(0.0, 5.0),
    share=st.floats(0.0, 0.2),
    steps=st.lists(st.tuples(st.floats(1e-4, 0.3), costs, st.booleans()), max_size=300),
)
def test_never_more_than_one_examined_step_too_much(exam, share, steps):
    run = Run(exam, share)
    run.steady_since = run.clock.now
    for plain, layer, new in steps:
        run.step(plain, layer, new=new)
        assert run.exam_cost <= exam + run.dearest + 1e-9
        since = run.clock.now - run.steady_since
        assert run.steady_cost <= share * since + run.dearest + 1e-9
