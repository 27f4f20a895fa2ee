"""Strict mode: the predicates of the checks, asked row by row while the run goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reefwatch.judge.dist_breaches import breach_message as _dist
from reefwatch.judge.loop_breaches import breach_message as _loop
from reefwatch.judge.precision_claims import breach_message, breaks_region, slow_breach

Hook = Callable[[Mapping[str, Any]], "str | None"]


def _precision(row: Mapping[str, Any]) -> str | None:
    slow = slow_breach(row)
    if slow is not None or row["kind"] in ("compile", "kernel", "blas"):
        return slow
    # of compiled code it is not known who decided the dtype: said in the report, not raised
    sure = breaks_region(row) and not row.get("compiled")
    return breach_message(row) if sure else None


HOOKS: dict[str, Hook] = {"precision": _precision, "loop": _loop, "dist": _dist}
"""By contract, what says the message for a row that breaks it. Other contracts add theirs here."""


class Referee:
    """The `core.ports.Referee` of strict mode: knows the contracts it was asked to keep."""

    def __init__(self, contracts: tuple[str, ...], hooks: Mapping[str, Hook] = HOOKS) -> None:
        self._hooks = {name: hook for name, hook in hooks.items() if name in contracts}

    def breach(self, contract: str, row: Mapping[str, Any]) -> str | None:
        """The message when this row breaks the contract, else None."""
        hook = self._hooks.get(contract)
        return None if hook is None else hook(row)
