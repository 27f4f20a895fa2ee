"""The process in which the script runs: `python -m reefwatch.experiments.numerics PLAN.json`.

Needs the standard library and the environment's torch alone: it may be another environment's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(path: str) -> int:
    """Run the plan's script, with its record written into the plan's folder."""
    from reefwatch.gather import runner
    from reefwatch.gather.watch import Watch
    from reefwatch.store.writer import Writer

    plan: dict[str, Any] = json.loads(Path(path).read_text())
    program = runner.prepare(plan["argv"], plan["module"])
    sink = Writer(Path(plan["out"]), plan["header"])
    instruments, options = _follower(plan, sink) if plan.get("against") else _states(plan)
    watch = Watch(sink, instruments, exam=plan.get("exam", 1e9), budget=0.0, options=options)
    watch.start()
    ending = runner.run(program)
    if ending.forked:
        return ending.code
    watch.stop({"code": ending.code, "exception": ending.exception})
    sink.close()
    return ending.code


def _states(plan: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """For `resume-check`: a row per update."""
    from reefwatch.gather.numerics.resume import States

    return [States(plan)], {"ladder": range(plan["most"])}


def _follower(plan: dict[str, Any], sink: Any) -> tuple[list[Any], dict[str, Any]]:
    """For `bisect`: as `run --against` does, and `--truth` where it was asked for."""
    from reefwatch.core.fact import Evidence
    from reefwatch.gather.numerics.follow import Follower
    from reefwatch.gather.numerics.reference import LADDER
    from reefwatch.store.bundle import MOST_SIZE, Bundle

    reader = Bundle(Path(plan["against"]), plan["most"] or MOST_SIZE)
    sink.fact("numerics.follows", Evidence("numerics.follows", True, source="bisect"))
    asked = Evidence("numerics.asked", bool(plan["truth"]), source="bisect")
    sink.fact("numerics.asked", asked)
    instruments: list[Any] = [Follower()]
    if plan["truth"]:
        from reefwatch.gather.numerics.truth import Truth

        instruments.append(Truth())
    return instruments, {"ladder": LADDER, "reference": reader, "exam": plan["exam"]}


if __name__ == "__main__":
    del sys.path[0]
    sys.exit(main(sys.argv[1]))
