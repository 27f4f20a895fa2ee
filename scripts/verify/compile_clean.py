"""Right programs under the guard: torch's own op samples, and small random models.

A finding here is a false one. Ops: the first 150 entries of torch's op database, by name, that
support bfloat16; forward and backward, float32 and bfloat16, compiled one by one. What is told of
is looked at by hand: a sample whose compiled result is truly wrong is a real finding and listed.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import warnings
from collections import Counter
from typing import Any

warnings.filterwarnings("ignore")
ENTRIES = 150


def judged(function: Any, args: Any, kwargs: Any, compiled: Any, **options: Any) -> Any:
    """One call, judged as the guard judges it."""
    from reefwatch.gather.compiled.trial import Rules, Trial, judge

    trial = Trial(function, args, kwargs)
    if trial.reason:
        from reefwatch.gather.compiled.trial import Verdict

        return Verdict(unproven=trial.reason)
    out, error = None, None
    try:
        out = compiled(*args, **kwargs)
    except Exception as raised:
        error = raised
    seen = trial.observe(out, error)
    return judge(trial, seen, compiled, Rules(), own_randomness=False, **options)


def entries(count: int = ENTRIES) -> list[Any]:
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    both = {torch.float32, torch.bfloat16}
    fitting = [op for op in op_db if both <= set(op.supported_dtypes("cpu"))]
    return sorted(fitting, key=lambda op: (op.name, op.variant_test_name))[:count]


def ops(
    most: int, start: int, stop: int, device: str, seconds: float
) -> tuple[Counter[str], list[str]]:
    import torch

    torch._inductor.config.fallback_random = True
    count: Counter[str] = Counter()
    told: list[str] = []
    until = time.monotonic() + seconds
    chosen = list(enumerate(entries()[start:stop], start))
    for number, op in chosen:
        if time.monotonic() > until:
            count["entries not tried"] = chosen[-1][0] - number + 1
            told.append(f"not tried, out of time: {op.name} and all after it")
            break
        count["entries"] += 1
        for dtype in (torch.float32, torch.bfloat16):
            begun = time.monotonic()
            torch.manual_seed(number)
            try:
                samples = list(op.sample_inputs(device, dtype, requires_grad=op.supports_autograd))
            except Exception as error:
                count["no samples"] += 1
                told.append(f"no samples: {op.name}: {error}"[:200])
                continue
            step = max(1, len(samples) // most)
            for sample in samples[::step][:most]:
                kwargs, count_before = dict(sample.kwargs), count["judged"]

                def call(*args: Any, _op: Any = op, _kw: Any = kwargs) -> Any:
                    return _op(*args, **_kw)

                torch._dynamo.reset()
                verdict = judged(call, (sample.input, *sample.args), {}, torch.compile(call))
                where = f"{op.formatted_name} {str(dtype)[6:]}"
                if verdict.unproven:
                    count["unproven"] += 1
                    told.append(f"unproven: {where}: {verdict.unproven}")
                    continue
                count["judged"] = count_before + 1
                count["graded"] += verdict.graded
                count[f"referee {verdict.referee.split(' ')[0]}"] += 1
                for one in verdict.differences[:1]:
                    count["finding"] += 1
                    told.append(
                        f"FINDING: {where}: {one.kind}: {one.text}; {one.error:.3g}"
                        f" allowed {one.allowed:.3g}; {verdict.referee}"
                    )
                if verdict.inconclusive:
                    count["inconclusive"] += 1
                    told.append(f"inconclusive: {where}: {verdict.inconclusive[0].text}")
            print(
                f"{number} {op.formatted_name} {dtype} {time.monotonic() - begun:.0f} s",
                file=sys.stderr,
                flush=True,
            )
            for line in told:
                if line not in _shown:
                    _shown.add(line)
                    print("   ", line, file=sys.stderr, flush=True)
        gc.collect()
    return count, told


_shown: set[str] = set()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--most", type=int, default=1, help="samples for each op and dtype")
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--stop", type=int, default=ENTRIES)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=36_000)
    given = parser.parse_args()
    count, told = ops(given.most, given.start, given.stop, given.device, given.seconds)
    print("### Right programs: torch's own op samples, one each for float32 and bfloat16\n")
    print("| what | samples |\n| --- | --- |")
    for name, number in sorted(count.items()):
        print(f"| {name} | {number} |")
    for line in told:
        print(f"- {line}")
    share = count["inconclusive"] / max(1, count["judged"])
    left = count["entries not tried"]
    return int(count["finding"] > 0 or share > 0.02 or left > 0)


if __name__ == "__main__":
    sys.exit(main())
