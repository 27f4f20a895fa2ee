"""The process in which the script runs: `python -m reefwatch.experiments.numerics PLAN.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(path: str) -> int:
    """Run the plan's script, with a row per update written into the plan's folder."""
    from reefwatch.gather import runner
    from reefwatch.gather.numerics.resume import States
    from reefwatch.gather.watch import Watch
    from reefwatch.store.writer import Writer

    plan: dict[str, Any] = json.loads(Path(path).read_text())
    program = runner.prepare(plan["argv"], plan["module"])
    sink = Writer(Path(plan["out"]), plan["header"])
    options = {"ladder": range(plan["most"])}
    watch = Watch(sink, [States(plan)], exam=1e9, budget=0.0, options=options)
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
