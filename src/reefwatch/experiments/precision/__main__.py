"""The process in which the script runs: `python -m reefwatch.experiments.precision PLAN.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from reefwatch.core.fact import Evidence


def main(path: str) -> int:
    """Run the plan's script, with its record written into the plan's folder."""
    from reefwatch.experiments.precision.rotation import Rotation
    from reefwatch.gather import runner
    from reefwatch.gather.watch import Watch
    from reefwatch.store.writer import Writer

    plan: dict[str, Any] = json.loads(Path(path).read_text())
    program = runner.prepare(plan["argv"], plan["module"])
    sink = Writer(Path(plan["out"]), plan["header"], scrub=plan["scrub"])
    if plan["claim"]:
        claim = Evidence("claim.precision", plan["claim"], source="--claim")
        sink.fact("claim.precision", claim)
    rotation = Rotation(
        plan["rounds"],
        tuple(plan["without"]),
        plan["claim"],
        plan["profile"],
        plan["policy"],
        plan["signatures"],
    )
    options = {"claim": plan["claim"], "why": plan["why"]}
    watch = Watch(sink, [rotation], exam=0.0, budget=0.0, options=options)
    watch.start()
    ending = runner.run(program)
    if ending.forked:
        return ending.code
    watch.stop({"code": ending.code, "exception": ending.exception})
    sink.close()
    return ending.code


if __name__ == "__main__":
    del sys.path[0]
    sys.exit(main(sys.argv[1]))
