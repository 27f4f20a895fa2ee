"""What a check is: one rule over a Case, its help page, and its own good and bad cases."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from reefwatch.core.claim import CONTRACTS
from reefwatch.core.errors import MalformedCheck
from reefwatch.core.finding import Coverage, Finding, Severity
from reefwatch.core.record import Case

Rule = Callable[[Case], Iterator[Finding]]
_CODE = re.compile(r"([A-Z]{3,5})(\d{3})")
_STRIPPED = sys.flags.optimize >= 2
"""Python drops docstrings under -OO."""


@dataclass(frozen=True)
class Check:
    """A rule with everything that is known about it."""

    code: str
    severity: Severity
    rule: Rule
    title: str
    """The claim that the check judges, so that `held` and `broken` read naturally after it."""
    page: str
    needs: tuple[str, ...]
    when: tuple[str, ...]
    good: tuple[Case, ...]
    bad: tuple[Case, ...]
    covers: Callable[[Case], tuple[Coverage, ...]] | None
    doubt: Callable[[Case], str] | None

    @property
    def contract(self) -> str:
        return CONTRACTS[self.code[:-3]]


def check(
    code: str,
    severity: Severity,
    *,
    needs: tuple[str, ...],
    good: tuple[Case, ...],
    bad: tuple[Case, ...],
    when: tuple[str, ...] = (),
    covers: Callable[[Case], tuple[Coverage, ...]] | None = None,
    doubt: Callable[[Case], str] | None = None,
) -> Callable[[Rule], Check]:
    """Turn a generator `rule(case) -> Iterator[Finding]` into a Check.

    `needs` names facts: if one is Unknown the engine answers unproven with its reason.
    `when` names facts whose value must be true for the claim to be made at all (no GradScaler, no
    claim about it); an Unknown one also makes the outcome unproven. `name=one|other` asks for one
    of these values.
    `covers` says how much of the run the verdict rests on. `doubt` says why a claim without a
    finding is unproven all the same, "" when it is not.
    Raises MalformedCheck, by name, for a bad code, a missing docstring, or missing cases.
    """

    def build(rule: Rule) -> Check:
        name = getattr(rule, "__qualname__", repr(rule))
        family = _CODE.fullmatch(code)
        if family is None or family[1] not in CONTRACTS:
            raise MalformedCheck(f"{name}: {code!r} is not a code of a known family")
        page: Any = inspect.getdoc(rule) or (_from_source(rule) if _STRIPPED else None)
        if not page:
            raise MalformedCheck(f"{code} ({name}): no docstring")
        for word in ("Why:", "Fix:", "Source:"):
            if word not in page:
                raise MalformedCheck(f"{code} ({name}): its page has no {word!r}")
        if not needs:
            raise MalformedCheck(f"{code} ({name}): needs no evidence")
        if not good or not bad:
            raise MalformedCheck(f"{code} ({name}): needs good and bad cases")
        title = page.splitlines()[0].rstrip(".")
        return Check(code, severity, rule, title, page, needs, when, good, bad, covers, doubt)

    return build


def _from_source(rule: Rule) -> str | None:
    """The docstring as the source has it; None when there is no source or no docstring."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[rule.__module__]))
    except (OSError, SyntaxError, KeyError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == rule.__name__:
            return ast.get_docstring(node)
    return None
