"""What dynamo did not compile: graph breaks, frames left to eager, the recompile limit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from reefwatch.gather.patches import Patches, getframe

_RESUMED = "torch_dynamo_resume_in_"
"""What dynamo calls the rest of a function after a graph break."""
MOST = 50
"""Rows of each sort."""


class Frames:
    """Keeps, by place, each graph break, frame left to eager and limit that was hit.

    Dynamo is only listened to: what it does is as without.
    """

    def __init__(self, torch: Any) -> None:
        self.rows: dict[tuple[str, str, int, str], dict[str, Any]] = {}
        self.compiled = 0
        """Frames that were compiled."""
        self.reason = ""
        """Why breaks and limits could not be listened to."""
        self._torch = torch
        self._patches = Patches()
        self._seen: Any = None
        self._over = False

    def start(self) -> None:
        """Dynamo's own modules are imported with the first compiled call at the latest."""
        try:
            from torch._dynamo import convert_frame, symbolic_convert

            base = symbolic_convert.InstructionTranslatorBase
            self._patches.replace(base, "log_graph_break", self._broke)
            self._patches.replace(convert_frame, "exceeds_recompile_limit", self._limit)
        except (ImportError, AttributeError) as error:
            self.reason = f"this torch has no such place: {error}"

    def stop(self) -> None:
        self.read()
        self._over = True
        self._patches.restore()

    def _broke(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def log_graph_break(tracer: Any, *args: Any, **kwargs: Any) -> Any:
            error = kwargs.get("exc", args[2] if len(args) > 2 else None)
            known = bool(getattr(error, "logged", False))
            made = original(tracer, *args, **kwargs)
            if not known:
                self._keep_break(error, args[0] if args else kwargs.get("code_options", {}))
            return made

        return log_graph_break

    def _keep_break(self, error: Any, options: Any) -> None:
        try:
            stack = list(getattr(error, "real_stack", None) or ())
            file, line = options["co_filename"], options["co_firstlineno"]
            if stack:
                file, line = stack[-1].filename, stack[-1].lineno
            reason = getattr(error, "gb_type", None) or type(error).__name__
            words = str(getattr(error, "msg", "") or error)
            self._add("break", str(file), int(line or 0), str(reason), _hint(words))
        except Exception as failed:  # what dynamo says has another form
            self.reason = f"a graph break could not be read: {failed}"

    def _limit(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def exceeds_recompile_limit(*args: Any, **kwargs: Any) -> Any:
            made = original(*args, **kwargs)
            if made[0]:
                frame: Any = getframe(1)
                while frame is not None and "recompile_reason" not in frame.f_locals:
                    frame = frame.f_back
                found = frame.f_locals if frame is not None else {}
                code = found.get("code")
                if code is not None:
                    why = str(found.get("recompile_reason") or "")
                    place = (code.co_filename, code.co_firstlineno)
                    self._add("limit", *place, code.co_name, _first(why), str(made[1]))
            return made

        return exceeds_recompile_limit

    def read(self) -> None:
        """Take what dynamo has noted of the frames that it has met since."""
        if self._over:  # what is compiled now is ours
            return
        utils = sys.modules.get("torch._dynamo.utils")
        noted = list(getattr(utils, "_compilation_metrics", ()))
        fresh = noted
        for n in range(len(noted) - 1, -1, -1):
            if noted[n] is self._seen:
                fresh = noted[n + 1 :]
                break
        self._seen = noted[-1] if noted else self._seen
        for one in fresh:
            if getattr(one, "is_forward", True) is False:
                continue
            if getattr(one, "has_guarded_code", None):
                self.compiled += 1
            elif getattr(one, "fail_type", None):
                self._left(one)

    def _left(self, one: Any) -> None:
        kind, why = str(one.fail_type), str(one.fail_reason or "")
        if "recompile limit" in why or "Restart" in kind:
            return
        file = one.fail_user_frame_filename or one.co_filename or ""
        line = one.fail_user_frame_lineno or one.co_firstlineno or 0
        name = kind.rpartition(".")[2]
        self._add("left", str(file), int(line), str(one.co_name or ""), f"{name}: {_first(why)}")

    def _add(self, kind: str, file: str, line: int, what: str, why: str, knob: str = "") -> None:
        if what.startswith(_RESUMED):
            name, _, at = what.removeprefix(_RESUMED).rpartition("_at_")
            what = f"{name}, from line {at.partition('_')[0]} on"
        key = (kind, file, line, what)
        row = self.rows.get(key)
        if row is not None:
            row["times"] += 1
        elif len(self.rows) < MOST:
            row = {"kind": kind, "file": file, "line": line, "what": what, "why": why}
            self.rows[key] = {**row, "knob": knob, "times": 1}


def _first(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return lines[0][:200] if lines else ""


def _hint(words: str) -> str:
    """The explanation that dynamo gives of a break."""
    for line in words.splitlines():
        if line.strip().startswith("Explanation:"):
            return line.partition(":")[2].strip()[:200]
    return _first(words)
