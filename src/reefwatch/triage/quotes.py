"""Source text and documentation in a log: they hold a message that nobody raised there."""

from __future__ import annotations

import re
from functools import cached_property

_BEFORE = re.compile(
    r"(?:\S+\.(?:py|pyx|c|cc|cpp|cu|cuh|h|hpp|hip|md|rst|txt|toml|ya?ml)[:-]\d+[:-]\s?)?"  # grep -n
    r"(?:[+-](?![\s+-]*$)(?=\s{2,}))?"  # a diff
    r"\s*(?:-+>\s*\d*\s+|\d+\s{2,}(?=\S))?"  # IPython shows the line that runs
)
_CODE = re.compile(
    r"""(?:
      raise\s+[A-Za-z_][\w.]*\s*(?:\(|$|from\b)
    | (?:await\s+|return\s+|yield\s+)?(?:self\.|cls\.)[\w.]+\s*[(=\[]
    | (?:warnings\.warn|logg?(?:er|ing)?\.(?:debug|info|warn(?:ing)?|error|critical|exception)|print
      |sys\.exit|pytest\.\w+|torch\._check\w*|fprintf|printf|LOG|VLOG)\s*\(
    | (?:TORCH_(?:CHECK|WARN|INTERNAL_ASSERT)\w*|AT_ERROR|AT_ASSERT\w*|C10_\w+_CHECK)\s*\(
    | throw\s+[\w:]+\s*[({] | std::c(?:err|out)\s*<<
    | (?:if|elif|while|except|with|for|def|class|try|else|async)\b[^"']*(?:["'].*["'][^"']*)?:\s*(?:\#.*)?$
    | (?:if|while|for|switch)\s?\(.*[{;]\s*$ | \#\s?(?:define|include|ifdef|ifndef)\b
    | return\s+(?:[\w.]+\(.*|[fr]?["'].*["'])$ | from\s[\w.]+\simport\s | assert\s.*,\s*[fr]?["']
    | [A-Za-z_][\w.]*(?:\[[^\]]*\])?\s[+-]?=\s[\w.]+\(.*\)?$
    | [A-Za-z_][\w.]*\s?[+-]?=\s?[fr]?\(?["'].*["']\)?[,;]?$
    | [rbfuRBFU]{1,2}(?P<quote>["']).*(?P=quote)\s*(?:[,)+\\].*)?$
    | //\s | /\*
    )""",
    re.VERBOSE,
)
_STRING = re.compile(r"""\s{4,}["'].*["']\s*(?:[,)+\\%].*)?$|\s{4,}["'].*["']\.format\(""")
_MARGIN = re.compile(r"\s*\d+\s\|\s|\s*[│┃]")
"""A compiler shows the line that it speaks of: `   36 | typedef ...`; rich has a frame around."""

_DOC = re.compile(
    r"(?i)\bif (?:you|one) (?:see|sees|get|gets|got|hit|encounter|receive|run into|ran into|are (?:seeing|getting)|still)\b"
    r"|\bwhen you (?:see|get|hit)\b|\byou (?:may|might|could|will|would|can) (?:see|get|hit|encounter)\b"
    r"|\b(?:common|known|frequent|typical) (?:errors?|issues?|problems?|failures?)\b|\btroubleshooting\b"
    r"|\b(?:errors?|messages?|warnings?) (?:like|such as|called|named)\b"
    r"|\b(?:fix(?:es|ed)?|workarounds?|works around|closes|resolves|resolved)\b(?! failed)"
    r"|\bto (?:avoid|prevent|fix|silence|suppress|reproduce)\b|\b(?:means|indicates) that\b"
    r"|\b(?:see|read) (?:the )?(?:docs?|documentation|FAQ|README|wiki|section)\b|\bFAQ\b|\bhelp=|\be\.g\."
    r"|\b(?:do|does|did|will|would) not (?:raise|throw|mean)\b|\bno longer\b|\binstead of\b"
)


class Quotes:
    """Asked of a line where in it a message is only quoted."""

    def __init__(self, body: str, shown: bool, raised: bool) -> None:
        """`shown`: a traceback shows it as source. `raised`: it names an exception."""
        self._body, self._shown, self._raised = body, shown, raised

    def at(self, place: int) -> bool:
        """True when what stands at this place of the line is quoted, and did not happen here."""
        if self._shown:
            return True
        if self._raised:
            return False
        if self._code:
            return True
        doc = _DOC.search(self._body, 0, place)
        return doc is not None

    @cached_property
    def _code(self) -> bool:
        body = self._body
        if len(body) > 2000:
            return False
        if _MARGIN.match(body) or _STRING.match(body):
            return True
        before = _BEFORE.match(body)
        return _CODE.match(body, before.end() if before else 0) is not None
