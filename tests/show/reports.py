# ruff: noqa: E501
"""Hand-made records and reports: one realistic run, and the shapes a report can have.

`cnn_record()` is a bf16-mixed CNN on images, 300 steps, with everything that docs/record.md names
for precision, loop and perf. All numbers come from a seed, so that snapshots stay.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

from reefwatch.core.fact import Evidence, Fact, Grade, Unknown
from reefwatch.core.finding import Coverage, Finding, Outcome, Place, Severity, Verdict
from reefwatch.core.record import Event, Record
from reefwatch.core.report import Report

CWD = "/home/user/digits"
TRAIN = f"{CWD}/train.py"
MODEL = f"{CWD}/model.py"
WIDTHS = (64, 128, 256, 512)


def fact(name: str, value: Any, unit: str = "", source: str = "case") -> tuple[str, Fact]:
    return name, Evidence(name, value, unit, source)


def layers() -> list[tuple[str, str, int]]:
    """(module, kind, relative size) of a small ResNet."""
    found = [("stem.conv", "conv", 2), ("stem.norm", "norm", 1)]
    for stage, width in enumerate(WIDTHS, start=1):
        for block in (0, 1):
            path = f"stage{stage}.{block}"
            for number in (1, 2):
                found.append((f"{path}.conv{number}", "conv", width // 16))
                found.append((f"{path}.norm{number}", "norm", 1))
            if block == 0 and stage > 1:
                found.append((f"{path}.shortcut", "conv", width // 64))
    return [*found, ("head.proj", "matmul", 32), ("head.fc", "matmul", 1)]


def op_events(upcast: bool = True, more: int = 0) -> list[Event]:
    """The `precision.op` rows; with `upcast`, head.proj is computed in f32 in a bf16 region."""
    rows: list[dict[str, Any]] = []
    for module, kind, size in layers():
        low = not (upcast and module == "head.proj")
        for phase in ("forward", "backward"):
            rows.append(_op(module, kind, size, phase, "bf16" if low and kind != "norm" else "f32"))
            if kind != "norm" and low and phase == "forward":
                rows.append(_op(module, "cast", size, phase, "bf16"))
    rows.append(_op("", "loss", 1, "forward", "f32"))
    rows += [
        _op(f"extra.{n % 97}.block.{n % 13}.lin{n}", "matmul", n % 7 + 1, "forward", "bf16")
        for n in range(more)
    ]
    return [Event("precision.op", row, id=str(n)) for n, row in enumerate(rows)]


def _op(module: str, kind: str, size: int, phase: str, dtype: str) -> dict[str, Any]:
    names = {"conv": "aten.convolution", "matmul": "aten.mm", "norm": "aten.native_batch_norm"}
    op = names.get(
        kind, {"cast": "aten._to_copy", "loss": "aten.nll_loss_forward"}.get(kind, "aten.add")
    )
    if phase == "backward":
        op += "_backward"
    heavy = kind in ("conv", "matmul")
    upcast = heavy and dtype == "f32"
    return {
        "op": op + ".default",
        "kind": kind,
        "in": ["f32"] if kind == "cast" else [dtype, dtype],
        "out": [dtype],
        "module": module,
        "file": MODEL if module else TRAIN,
        "line": 12 + sum(map(ord, module)) % 60,
        "phase": phase,
        "autocast": "off" if upcast else "bf16",
        "region": "bf16",
        "cause": "explicit upcast"
        if upcast
        else "policy"
        if kind in ("cast", "norm", "loss")
        else None,
        "calls": 22,
        "flops": (2 if phase == "backward" else 1) * size * 3.1e9 if heavy else 0,
        "bytes": size * 5.2e6 * (2 if dtype == "f32" else 1),
    }


def step_events(steps: int = 300, exam: int = 20, every: int = 100) -> list[Event]:
    """`perf.steps` in chunks of 100: a slow first step, slower examined ones, a few hiccups."""
    rng = random.Random(7)
    times, examined = [], []
    for n in range(steps):
        seen = n < exam or (n % every == 50)
        time = 0.118 + rng.gauss(0, 0.003) + (0.055 if seen else 0) + (2.1 if n == 0 else 0)
        times.append(round(time + (0.09 if n % 83 == 61 else 0), 5))
        examined.append(int(seen))
    return [
        Event(
            "perf.steps",
            {"first": n, "seconds": times[n : n + 100], "examined": examined[n : n + 100]},
        )
        for n in range(0, steps, 100)
    ]


def loss_events(steps: int = 300) -> list[Event]:
    rng = random.Random(3)
    losses = [2.3 * math.exp(-n / 90) + 0.12 + rng.random() * 0.2 for n in range(steps)]
    return [
        Event("loop.loss", {"first": n, "values": [round(v, 4) for v in losses[n : n + 100]]})
        for n in range(0, steps, 100)
    ]


def samples(count: int = 40) -> list[Event]:
    rng = random.Random(11)
    rows = []
    for n in range(count):
        warm = 1 - math.exp(-n / 8)
        rows.append(
            {
                "t": n * 1.0,
                "temperature": round(44 + 27 * warm + rng.random(), 1),
                "hotspot": round(52 + 41 * warm + rng.random() * 2, 1),
                "power": round(95 + 215 * warm + rng.random() * 12, 1),
                "power_cap": 339.0,
                "clock": round(2480 - 120 * warm + rng.random() * 30),
                "max_clock": 2500,
                "utilisation": round(88 + rng.random() * 11),
                "memory_used": round((6.2 + 2.1 * min(1, n / 3)) * 2**30),
                "memory_total": 24 * 2**30,
                "throttle": [],
            }
        )
    return [Event("perf.sample", row) for row in rows]


def saved_events() -> list[Event]:
    rows = [(m, "f32" if kind == "norm" else "bf16", size * 9.4e6) for m, kind, size in layers()]
    return [
        Event("precision.saved_by", {"module": m, "dtype": d, "bytes": b}, id=f"{m} {d}")
        for m, d, b in rows
    ]


def cnn_facts(steps: int = 300) -> dict[str, Fact]:
    mib = 2**20
    return dict(
        [
            fact("run.exit", {"code": 0, "exception": None, "seconds": 41.32}),
            fact("run.steps", {"count": steps, "kind": "optimizer"}),
            fact("env.torch", {"version": "2.13.0", "hip": "7.1.25424", "cuda": None, "threads": 16}),
            fact("env.device", {"kind": "amd", "name": "AMD Radeon RX 7900 XTX", "count": 1}),
            fact("watch.exam", {"steps": 20, "seconds": 4.9, "allowance": 20.0, "ended": "nothing new"}),
            fact("watch.budget", {"share": 0.02, "spent_share": 0.004, "examined": 3, "of": steps - 20}),
            fact("watch.cost", {"precision": 0.052, "loop": 0.003, "perf": 0.0002}),
            fact("watch.compile", {"used": False, "calls": 0}),
            fact("watch.children", {"spawned": 4, "watched": 0}),
            fact("claim.precision", "bf16-mixed", source="autocast state seen"),
            fact(
                "precision.ops",
                {
                    "steps": 23,
                    "steps_of": steps,
                    "ops": 14283,
                    "modules_seen": 37,
                    "modules_total": 37,
                    "compiled_calls": 0,
                    "unseen": ["4 data loader workers are processes of their own"],
                },
            ),
            fact("precision.saved", {"bf16": 812 * mib, "f32": 240 * mib, "i64": 3 * mib}),
            fact(
                "precision.state",
                {"param": {"f32": 43 * mib}, "grad": {"f32": 43 * mib}, "optimizer": {"f32": 86 * mib}},
            ),
            fact("precision.flags", {"matmul.allow_tf32": False, "cudnn.allow_tf32": True}),
            fact("loop.losses", {"seen": steps, "backwards": steps}),
            fact("perf.steps", {"count": steps, "median": 0.1184, "p95": 0.1731, "warmup": 1, "samples_per_second": 1081.0}),
            fact("perf.memory", {"allocated": 1180 * mib, "reserved": 8500 * mib, "peak": 6211 * mib, "owner": "stage1.0.norm1", "device": "cuda:0"}),
            fact("perf.device", {"kind": "amd", "name": "AMD Radeon RX 7900 XTX", "source": "sysfs", "interval": 1.0}),
            ("perf.link", Unknown("pcie link registers are not readable in this container")),
        ]
    )  # fmt: skip


def cnn_record(steps: int = 300, rank: int = 0, world: int = 1, more_ops: int = 0) -> Record:
    header = {
        "schema": 1, "reefwatch": "0.1.0", "run_id": "20260314-101500-train", "started": "2026-03-14T10:15:00+01:00",
        "argv": ["train.py", "--epochs", "1", "--batch", "128"], "cwd": CWD, "script": TRAIN,
        "python": "3.12.4", "rank": rank, "world": world, "local_rank": rank, "pid": 4242, "host": "<host>",
        "options": {"exam": 20.0, "budget": 0.02},
    }  # fmt: skip
    events = [
        *op_events(more=more_ops),
        *saved_events(),
        *step_events(steps),
        *loss_events(steps),
        *samples(),
    ]
    return Record(header, cnn_facts(steps), tuple(events))


STEPS = Coverage("steps", 23, 300)
MODULES = Coverage("modules", 37, 37)
UPDATES = Coverage("updates", 300, 300)

UPCAST = Finding(
    message="aten.mm runs in f32 inside a bf16 region: 13 % of the flops of matmuls and convolutions",
    evidence=(
        Evidence("share of flops", 0.131, "share", "dispatch, 23 steps"),
        Evidence("dtype of inputs", ["f32", "f32"], "", "dispatch"),
        Evidence("cause", "explicit upcast", "", "user frame", Grade.BY_NAME),
    ),
    place=Place("head.proj", "aten.mm.default", MODEL, 41),
    claimed="bf16-mixed, by the autocast state seen",
    why="the input is cast with .float() before the product, so autocast has nothing to lower",
    cost="the product runs at the rate of f32, and 54 MiB more are kept for backward",
    fix="take the .float() at model.py:41 away, or move it behind the product",
)
UNCLEARED = Finding(
    message="gradients of 37 parameters were not cleared in 299 of 300 update cycles",
    evidence=(Evidence("cycles", 299, "cycles", "grad at the begin of backward"),),
    place=Place(file=TRAIN, line=63),
    claimed="each update uses the gradient of its own batch",
    why="optimizer.zero_grad() is not called between two updates",
    cost="each update adds all earlier gradients to its own",
    fix="call optimizer.zero_grad() before loss.backward()",
)
IDLE = Finding(
    message="the device waits 22 % of the step time for the data loader",
    evidence=(Evidence("wait", 9.1, "s", "data loader __next__"), Evidence("of", 41.3, "s", "run")),
    claimed="the device is kept busy",
    fix="raise num_workers (now 4), or set pin_memory=True",
)


def held(code: str, title: str, contract: str, *coverage: Coverage) -> Outcome:
    return Outcome(code, title, Verdict.HELD, contract=contract, coverage=coverage)


def broken(code: str, title: str, contract: str, *findings: Finding, severity: Severity = Severity.ERROR,
           coverage: tuple[Coverage, ...] = ()) -> Outcome:  # fmt: skip
    return Outcome(
        code, title, Verdict.BROKEN, severity, findings, contract=contract, coverage=coverage
    )


def unproven(code: str, title: str, contract: str, reason: str) -> Outcome:
    return Outcome(code, title, Verdict.UNPROVEN, reason=reason, contract=contract)


HELD = (
    held(
        "PREC001", "Matmuls and convolutions run in the claimed dtype", "precision", STEPS, MODULES
    ),
    held("PREC002", "Parameters are kept in the claimed dtype", "precision", MODULES),
    held("PREC004", "What is saved for backward is in the claimed dtype", "precision", STEPS),
    held("LOOP001", "Gradients are cleared in each update cycle", "loop", UPDATES),
    held("LOOP002", "Every trainable parameter is in an optimizer and changes", "loop", UPDATES),
    held("LOOP003", "No operation makes NaN or Inf", "loop", STEPS),
    held("LOOP004", "The loss is finite", "loop", Coverage("losses", 300, 300)),
    held("PERF001", "The step time is steady", "perf", Coverage("steps", 300, 300)),
    held("PERF002", "The device does not throttle", "perf", Coverage("samples", 40, 40)),
)
UNPROVEN = unproven(
    "PERF005", "The card runs at its full link width", "perf",
    "pcie link registers are not readable in this container",
)  # fmt: skip
ERRORED = Outcome(
    "LOOP008", "Each step sees new data", Verdict.ERRORED, contract="loop",
    reason="the check failed: ZeroDivisionError: division by zero",
)  # fmt: skip
UNCLAIMED = {
    "LOOP006": "loop.scaler is false (no GradScaler was built)",
    "LOOP007": "loop.scaler is false (no GradScaler was built)",
    "PREC005": "claim.precision is 'bf16-mixed' (autocast state seen)",
}
FACTS = {
    "folder": "reefwatch-runs/20260314-101500-train",
    "html": "reefwatch-runs/20260314-101500-train/report.html",
}
PAGES = {
    "PREC001": "Matmuls and convolutions run in the claimed dtype.\n\nWhy: a matmul in f32 is 2 to 16 times"
    " slower.\n\nFix: look for .float() in front of it.\n\nSource: dispatch of each op.",
    "LOOP001": "Gradients are cleared in each update cycle.\n\nWhy: they add up.\n\nFix: zero_grad().\n\n"
    "Source: torch.optim documentation.",
}


def with_records(outcomes: tuple[Outcome, ...], **more: Any) -> Report:
    made = {"records": (cnn_record(),), "facts": FACTS, "unclaimed": UNCLAIMED} | more
    return Report("run", outcomes, **made)


def all_held() -> Report:
    return with_records(HELD)


def cnn_report(**more: Any) -> Report:
    """The realistic one: one error, one warning, one unproven, the rest held."""
    upcast = broken("PREC001", HELD[0].title, "precision", UPCAST, coverage=(STEPS, MODULES))
    idle = broken(
        "PERF004", "The device does not wait for data", "perf", IDLE,
        severity=Severity.WARNING, coverage=(Coverage("seconds", 41.3, 41.3),),
    )  # fmt: skip
    return with_records((upcast, *HELD[1:], idle, UNPROVEN), **more)


def several_ranks() -> Report:
    where = [
        replace(UPCAST, place=replace(UPCAST.place, ranks=(0, 1, 2, 3))),
        replace(UPCAST, place=replace(UPCAST.place, module="stage4.1.conv2", line=52, ranks=(2,))),
    ]
    upcast = broken("PREC001", HELD[0].title, "precision", *where, coverage=(STEPS, MODULES))
    uncleared = broken("LOOP001", HELD[3].title, "loop", UNCLEARED, coverage=(UPDATES,))
    records = tuple(cnn_record(rank=n, world=8) for n in (2, 0, 1, 3))
    remarks = ("ranks 4-7 of 8 left no record",)
    return with_records(
        (upcast, *HELD[1:3], uncleared, *HELD[4:]), records=records, remarks=remarks
    )


def only_unproven() -> Report:
    reason = "torch was not imported by the script"
    record = Record(
        {"argv": ["hello.py"], "cwd": CWD, "script": f"{CWD}/hello.py"},
        {
            "env.torch": Unknown(reason),
            "run.steps": Unknown(reason),
            "run.exit": Evidence("run.exit", {"code": 0, "exception": None, "seconds": 0.031}),
        },
    )
    outcomes = tuple(unproven(o.code, o.title, o.contract, reason) for o in HELD)
    return Report("run", outcomes, records=(record,), facts=FACTS)


def errored() -> Report:
    return with_records((*HELD, ERRORED))


def silenced() -> Report:
    quiet = replace(HELD[0], silenced=((UPCAST, "head.proj is small, agreed until 2027-01-01"),))
    return with_records(
        (quiet, *HELD[1:]), remarks=("the silence of LOOP003 at train.py:9 was not used",)
    )


def empty() -> Report:
    return Report("run", ())


NASTY = (
    "</script><script>alert(1)</script>",
    "\"quoted\" 'single' & <b>bold</b> `tick`",
    "\x1b[31mred\x1b[0m \x07bell \x9b2J",
    "日本語 – naïve – 😀 – e\u0301",
    "\u202eevil\u202c\u2028new line",
    "]]> --> <!-- ]]>",
    "{{ 7 * 7 }} {% raw %}",
    "lone \udc80 surrogate \ufffe \x00",
    "a\nb\r\nc\td",
    "/very/long" * 400 + "/train.py",
)


def nasty(text: str, record: Record | None = None) -> Report:
    """A report in which every string that can be set is `text`."""
    finding = Finding(
        message=text,
        evidence=(Evidence(text, text, text, text), Evidence(text, {text: [text]}, text, text)),
        place=Place(text, text, text, 3, 1, (0,)),
        claimed=text, why=text, cost=text, fix=text,
    )  # fmt: skip
    coverage = (Coverage(text, 1, 2),)
    outcomes = (
        Outcome("PREC001", text, Verdict.BROKEN, Severity.ERROR, (finding,), ((finding, text),), contract="precision", coverage=coverage),
        Outcome("LOOP001", text, Verdict.UNPROVEN, reason=text, contract="loop"),
        Outcome("PERF001", text, Verdict.ERRORED, reason=text, contract="perf"),
        Outcome("PERF002", text, Verdict.HELD, Severity.NOTE, (finding,), contract="perf"),
        Outcome("XTRA001", text, Verdict.HELD, contract=text),
    )  # fmt: skip
    facts: dict[str, Fact] = {name: Evidence(name, text, text, text) for name in cnn_facts()}
    facts |= {
        text: Unknown(text if text.strip() else "-"),
        "errored.x": Evidence("errored.x", {"error": text, "where": text, "step": 1}),
    }
    facts["claim.precision"] = Evidence("claim.precision", text, source=text)
    facts["precision.saved"] = Evidence("precision.saved", {text: 3, "bf16": 4})
    facts["precision.state"] = Evidence("precision.state", {text: {text: 3}})
    row = _op(text, "matmul", 1, "forward", "f32") | {
        "op": text,
        "file": text,
        "cause": text,
        "in": [text],
    }
    events = (
        Event("precision.op", row, id="0"),
        Event("precision.saved_by", {"module": text, "dtype": text, "bytes": 3}, id=text),
        Event("perf.sample", {"t": 0.0, "temperature": text, "throttle": text}),
    )
    header = dict.fromkeys(("argv", "cwd", "script", "host", "started", "python", text), text)
    made = record or Record(header, facts, events, complete=False, remarks=(text,))
    return Report(text, outcomes, {"LOOP002": text}, (made,), (text,), {"html": text, text: text})
