"""PERF005: waiting for data."""

from __future__ import annotations

from collections.abc import Iterator

from reefwatch.core.check import check
from reefwatch.core.claim import Tolerance
from reefwatch.core.finding import Coverage, Finding, Severity
from reefwatch.core.record import Case

_WAIT = Tolerance(
    0.1,
    "share of the time of the steps",
    "a tenth: without any waiting the run could not be more than 11 % faster",
)
_IDLE = Tolerance(
    5.0, "percent idle", "a card that idles less works off queued kernels while the processor waits"
)


def _wait(seconds: float, busy: float | None = None, workers: int = 0) -> Case:
    wait = {"seconds": seconds, "of": 10.0, "batches": 100, "workers": workers, "pin_memory": False}
    facts = {} if busy is None else {"perf__busy": {"median": busy, "samples": 30}}
    return Case.of(perf__gpu=True, perf__loader=True, perf__wait=wait, **facts)


def _covers(case: Case) -> tuple[Coverage, ...]:
    run = case.known("run.exit", {})
    seconds = run.get("seconds") if isinstance(run, dict) else None
    of = case.value("perf.wait")["of"]
    return (Coverage("seconds of the run", of, seconds),) if seconds else ()


@check(
    "PERF005",
    Severity.WARNING,
    when=("perf.gpu", "perf.loader"),
    needs=("perf.wait",),
    good=(_wait(0.2), _wait(0.9), _wait(4.0, busy=99.0)),
    bad=(_wait(4.0), _wait(1.5, busy=70.0), _wait(4.0, busy=60.0, workers=2)),
    covers=_covers,
)
def data_wait(case: Case) -> Iterator[Finding]:
    """The GPU does not wait for the data loader.

    Why: while the thread that trains waits for a batch it starts no kernels, and soon the card has
    nothing to do. Waiting that the card does not notice, since it is busy all the while, is not
    counted.
    Fix: more workers (`num_workers`), `pin_memory=True`, `persistent_workers=True`, cheaper
    decoding, data on a faster disk, or augmentation on the card.
    Source: PyTorch, Performance Tuning Guide, "Enable asynchronous data loading and augmentation".
    """
    wait = case.value("perf.wait")
    share = wait["seconds"] / wait["of"] if wait["of"] > 0 else 0.0
    busy = case.known("perf.busy")
    if not _WAIT.exceeded_by(share) or (
        busy is not None and not _IDLE.exceeded_by(100.0 - busy["median"])
    ):
        return
    evidence = [case.evidence("perf.wait")]
    if busy is not None:
        evidence.append(case.evidence("perf.busy"))
    card = "" if busy is None else f"; the card was {busy['median']:.0f} % busy at the median"
    workers = wait.get("workers")
    yield Finding(
        f"{share:.0%} of the step time is spent waiting for the data loader{card}",
        tuple(evidence),
        cost=f"without it the run would take {1 - share:.0%} of its time",
        why=f"{workers} workers" if workers else "batches are made on the thread that trains",
        fix="more workers" if workers else "set num_workers, pin_memory and persistent_workers",
    )
