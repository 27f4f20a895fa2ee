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
    | (?:if|elif|while|except|with|for|def|class|try|else|async)\b
      [^"']*(?:["'].*["'][^"']*)?:\s*(?:\#.*)?$
    | (?:if|while|for|switch)\s?\(.*[{;]\s*$ | \#\s?(?:define|include|ifdef|ifndef)\b
    | return\s+(?:[\w.]+\(.*|[fr]?["'].*["'])$ | from\s[\w.]+\simport\s | assert\s.*,\s*[fr]?["']
    | [A-Za-z_][\w.]*(?:\[[^\]]*\])?\s[+-]?=\s[\w.]+\(.*\)?$
    | [A-Za-z_][\w.]*\s?[+-]?=\s?[fr]?\(?["'].*["']\)?[,;]?$
    | [rbfuRBFU]{1,2}(?P<quote>["']).*(?P=quote)\s*(?:[,)+\\].*)?$
    | //\s | /\* | \#{2,6}\s
    )""",
    re.VERBOSE,
)
_STRING = re.compile(r"""\s{4,}["'].*["']\s*(?:[,)+\\%].*)?$|\s{4,}["'].*["']\.format\(""")
_MARGIN = re.compile(r"\s*\d+\s\|\s|\s*[│┃](?!\s?(?:[A-Z][a-z]{2}\s+\d+ \d|\[\s*\d+\.\d))")
"""A compiler shows the line that it speaks of: `   36 | typedef ...`; rich has a frame around."""

_DOC = re.compile(
    r"""(?ix)
      \bif\s(?:you|one)\s(?:sees?|gets?|got|hit|encounter|receive|run\sinto|ran\sinto|still
      |are\s(?:seeing|getting))\b
    | \bwhen\syou\s(?:see|get|hit)\b
    | \byou\s(?:may|might|could|will|would|can)\s(?:see|get|hit|encounter)\b
    | \b(?:common|known|frequent|typical)\s(?:errors?|issues?|problems?|failures?)\b
    | \btroubleshooting\b | \b(?:errors?|messages?|warnings?)\s(?:like|such\sas|called|named)\b
    | \b(?:fix(?:es|ed)?|workarounds?|works\saround|closes|resolves|resolved)\b
      (?!\s(?:failed|this:))
    | \bto\s(?:avoid|prevent|fix|silence|suppress|reproduce)\b | \b(?:means|indicates)\sthat\b
    | \b(?:see|read)\s(?:the\s)?(?:docs?|documentation|FAQ|README|wiki|section)\b | \bFAQ\b
    | \bhelp= | \be\.g\. | \b(?:do|does|did|will|would)\snot\s(?:raise|throw|mean)\b
    | \bno\slonger\b | \binstead\sof\b
    """
)
"""Words before a message that tell of it, rather than it."""


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
