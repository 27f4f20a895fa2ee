"""The known families whose words come closest to a line that none of them matches."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from reefwatch.triage.family import Family

_WORD = re.compile(r"[a-z][a-z0-9_]{2,}")
_LEAST = 0.2
"""Share of the line's weight that must be met; below it the nearest is far away."""
_WORDS_MET = 2


def nearest(
    line: str, others: Sequence[str], families: Sequence[Family], most: int = 3
) -> list[Family]:
    """At most `most` families, the nearest first; rare words weigh more than common ones."""
    known = [one for one in families if one.known]
    bags = {one.id: _words(_text(one)) for one in known}
    often = Counter(word for bag in bags.values() for word in bag)
    asked = _words(" ".join([line, *others[:5]]))
    weight = {word: math.log(1 + len(known) / often[word]) for word in asked if word in often}
    total = sum(weight.values()) + 0.5 * sum(word not in often for word in asked)
    if not total:
        return []
    scores = {
        one.id: sum(weight[word] for word in asked & bags[one.id] if word in weight) / total
        for one in known
    }
    ranked = sorted(known, key=lambda one: -scores[one.id])
    return [
        one
        for one in ranked[:most]
        if scores[one.id] >= _LEAST and len(asked & bags[one.id]) >= _WORDS_MET
    ]


def _text(family: Family) -> str:
    parts = [family.id.replace("-", " "), family.title, family.component, family.cause]
    for record in family.records:
        parts += [str(record.get("title", "")), *map(str, record.get("signature", ()))]
    return " ".join(parts)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower())) - _COMMON


_COMMON = frozenset(
    """
    the and for not with from file line error this that are was has have can cannot when while its
    but which runtimeerror traceback python torch site packages lib usr home opt rocm hip user
    """.split()  # noqa: SIM905
)
