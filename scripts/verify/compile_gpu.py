"""The cases and their clean twins on a GPU: the Triton backend in the place of the C++ one."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")
import torch  # noqa: E402

CASES = Path(__file__).resolve().parents[2] / "tests" / "data" / "compile"


def moved(value: Any, device: str) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().to(device).requires_grad_(value.requires_grad)
    return value


def looked(path: Path, device: str, armed: bool, locate: float) -> dict[str, Any]:
    """What the watch says of the calls of a case."""
    import reefwatch

    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    case = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(case)
    torch._dynamo.reset()
    torch._inductor.config.post_grad_custom_pre_pass = None
    lowerings = torch._inductor.lowering.lowerings
    kept = dict(lowerings)
    call, calls = case.build()
    if isinstance(call, torch.nn.Module):
        call.to(device)
    calls = [tuple(moved(a, device) for a in args) for args in calls]
    with tempfile.TemporaryDirectory() as folder:
        with reefwatch.watch(out=folder, exam=100, locate=locate):
            if armed and hasattr(case, "arm"):
                case.arm()
            compiled = torch.compile(call)
            for args in calls:
                try:
                    with torch.autocast(device, torch.bfloat16, enabled=case.AMBIENT_AUTOCAST):
                        compiled(*args)
                except Exception as error:
                    print(path.stem, type(error).__name__, str(error)[:100], file=sys.stderr)
        text = (Path(folder) / "rank0.jsonl").read_text()
        lines = [json.loads(line) for line in text.splitlines()]
    torch._inductor.config.post_grad_custom_pre_pass = None
    lowerings.clear()
    lowerings.update(kept)
    rows = {line["id"]: line["data"] for line in lines if line.get("event") == "compile.mismatch"}
    facts = {line["fact"]: line for line in lines if "fact" in line}
    return {"rows": list(rows.values()), "calls": facts.get("compile.calls", {}).get("value")}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--locate", type=float, default=30.0)
    parser.add_argument("--part", default="0/1")
    given = parser.parse_args()
    import torch._inductor.lowering  # noqa: F401

    part, of = map(int, given.part.split("/"))
    bad = 0
    for path in sorted(CASES.glob("[in][na][jt]_*.py"))[part::of]:
        if given.device != "cpu" and path.stem == "inj_maximum_tail":
            continue  # it is planted in the C++ backend
        for armed in (True, False) if path.stem.startswith("inj") else (True,):
            began = time.monotonic()
            told = looked(path, given.device, armed, given.locate)
            row = told["rows"][0] if told["rows"] else {}
            injected = path.stem.startswith("inj")
            expected = "found" if injected and armed else "silent" if injected else "either"
            got = "found" if row else "silent"
            bad += expected not in (got, "either")
            print(
                f"| {path.stem} | {'armed' if armed and injected else 'as it is'} | {got} | "
                f"{row.get('stage', '')} | {' '.join(row.get('ops', []))} | "
                f"{row.get('text', '')[:90]} | {told['calls'] and told['calls']['unproven']} | "
                f"{time.monotonic() - began:.0f} s |",
                flush=True,
            )
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
