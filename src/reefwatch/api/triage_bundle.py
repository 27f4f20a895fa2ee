"""One archive for a report upstream: excerpt, environment, and a page for each template."""

from __future__ import annotations

import io
import json
import os
import platform
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reefwatch.api import triage as verb
from reefwatch.core.errors import UsageError

_AROUND, _HEAD, _TAIL = 80, 40, 120


def write(
    answer: verb.Answer,
    target: str | os.PathLike[str],
    machine: str | os.PathLike[str] | None = None,
) -> list[str]:
    """Write the archive (zip); the names in it. All of it is redacted. Raises UsageError."""
    import zipfile

    from reefwatch.show import triage as show

    if verb.STDIN in answer.logs:
        raise UsageError(
            "--bundle needs the log as a file: what comes through a pipe is gone once read"
        )
    for log in answer.logs:
        if os.path.exists(target) and os.path.exists(log) and os.path.samefile(log, target):
            raise UsageError(f"--bundle {target}: that is the log itself")
    read = answer.read
    shared = verb.Shared(read)
    told = answer.diagnosis.view()
    doctor = shared.text(_doctor(machine))
    facts = {key: shared.text(value) for key, value in environment().items()}
    facts["findings"] = "\n".join(_broken(doctor))
    parts: dict[str, str] = {}
    excerpts = []
    for number, log in enumerate(answer.logs):
        if log not in read:
            continue
        excerpts.append(excerpt(shared.lines(log), _places(answer, log)))
        parts[f"excerpt-{number}.log" if len(answer.logs) > 1 else "excerpt.log"] = excerpts[-1]
    short = "\n".join(excerpts[0].splitlines()[-60:]) if excerpts else ""
    root = shared.text(told["root_line"] or "")
    told = {**told, "root_line": root}
    parts["amd.md"] = show.amd(told, facts, short)
    parts["pytorch.md"] = show.pytorch(told, facts, short)
    shown = {key: value for key, value in facts.items() if key not in ("findings", "rocminfo")}
    parts["environment.txt"] = "\n".join(f"{key}: {value}" for key, value in shown.items()) + "\n"
    plain = {**answer.diagnosis.plain(), "root_line": root}
    parts["triage.json"] = shared.text(json.dumps(plain, indent=2, ensure_ascii=False))
    if doctor:
        parts["doctor.json"] = doctor + "\n"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(parts):
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), parts[name])
    with verb.written(target, "--bundle") as out:
        out.write(made.getvalue())
    return sorted(parts)


def _doctor(machine: str | os.PathLike[str] | None) -> str:
    """A document of `reefwatch doctor --json`: the given one, or one of this machine now."""
    from contextlib import suppress
    from pathlib import Path

    if machine is not None:
        return Path(machine).read_text(encoding="utf-8", errors="replace")
    with suppress(Exception):  # the report can do without
        from reefwatch.api import machine as looks
        from reefwatch.show import json as show

        return show.render(looks.doctor())
    return ""


def _broken(doctor: str) -> list[str]:
    """What doctor found, a line each."""
    try:
        told = json.loads(doctor or "{}")
        found = [one for one in told.get("outcomes", ()) if one["verdict"] == "broken"]
        return [f"{one['code']}: {one['title']}" for one in found]
    except (ValueError, TypeError, KeyError, AttributeError):
        return []


def _places(answer: verb.Answer, log: str) -> list[int]:
    """Lines of the log that the diagnosis speaks of."""
    told = answer.diagnosis.plain()
    spots = [told, *(one for one in told["also"] if one.get("line_number"))]
    return [
        int(one["line_number"])
        for one in spots
        if one.get("file") == log and one.get("line_number")
    ]


def excerpt(lines: Iterable[str], places: Sequence[int]) -> str:
    """Head, tail and what is around the places; marks say what is left out."""
    wanted = sorted({max(place - _AROUND, 1) for place in places[:8]})
    spans = [(start, start + 2 * _AROUND) for start in wanted]
    kept: list[tuple[int, str]] = []
    tail: deque[tuple[int, str]] = deque(maxlen=_TAIL)
    for number, text in enumerate(lines, 1):
        text = text[:2000]
        if number <= _HEAD or any(start <= number <= end for start, end in spans):
            kept.append((number, text))
        else:
            tail.append((number, text))
    out, last = [], 0
    for number, text in [*kept, *(one for one in tail if not kept or one[0] > 0)]:
        if number != last + 1:
            out.append(f"[... {number - last - 1} lines ...]" if number > last else "[...]")
        out.append(text)
        last = number
    return "\n".join(out) + "\n"


def environment() -> dict[str, str]:
    """What the templates ask for, read from files and metadata: torch is not imported."""
    from reefwatch.core.fact import Unknown
    from reefwatch.gather.host import LiveHost

    host = LiveHost()

    def first(path: str, key: str) -> str:
        text = host.read(path)
        rows = text.splitlines() if isinstance(text, str) else []
        return next(
            (
                row.partition(":" if ":" in row else "=")[2].strip().strip('"')
                for row in rows
                if row.startswith(key)
            ),
            "",
        )

    rocm = host.read("/opt/rocm/.info/version")
    info = host.run(["/opt/rocm/bin/rocminfo", "--support"], timeout=10.0)
    told = verb._facts(None) or {}
    variables = {name: value for name, value in os.environ.items() if verb.telling(name)}
    system = first("/etc/os-release", "PRETTY_NAME") or platform.platform()
    return {
        "os": f"{system}, kernel {platform.release()}",
        "cpu": first("/proc/cpuinfo", "model name"),
        "gpu": ", ".join(told.get("archs", ())),
        "rocm": rocm if isinstance(rocm, str) else "",
        "python": platform.python_version(),
        "versions": "\n".join(_packages()),
        "rocminfo": "" if isinstance(info, Unknown) else info.out,
        "variables": " ".join(f"{name}={value}" for name, value in sorted(variables.items())),
    }


def _packages() -> list[str]:
    from importlib import metadata

    named: Mapping[str, Any] = {
        str(d.metadata["Name"]).lower(): d.version
        for d in metadata.distributions()
        if d.metadata["Name"]
    }
    return [f"{name}=={named[name]}" for name in sorted(named) if name.startswith(_WANTED)]


_WANTED = (
    *("torch", "triton", "pytorch-triton", "flash", "xformers", "bitsandbytes", "vllm", "numpy"),
    *("transformers", "accelerate", "deepspeed", "lightning", "pytorch-lightning", "rocm", "amd"),
)


__all__ = ["environment", "excerpt", "write"]
