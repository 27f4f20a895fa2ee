"""NVIDIA's cards by name: the planner serves them too, and takes no other words for one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

Table = Mapping[str, Any]
ANY = ("nvidia", "cuda", "geforce", "tesla", "quadro")
"""Names of no card in particular."""
_LOOKS = re.compile(
    r"\b(?:nvidia|geforce|quadro|tesla|titan|jetson|[rg]tx?(?=\s?\w?\d|\b)"
    r"|(?:h|a|b|l|v|t|p|k|m|gh|gb)\d{1,4}[sgx]?\b)",
    re.IGNORECASE,
)
_NOISE = re.compile(
    r"\b(?:nvidia|geforce|quadro|tesla|gpu|graphics|laptop|mobile|max-q|ti|super|d|pcie?|sxm\d?|nvl\d*"
    r"|hbm\d?e?|memory|generation|workstation|server|edition|design|with|\d+\s?gi?b|m\.2|\d+\s?mig)\b"
    r"|(?<=\d)(?:ti|super)\b|[^a-z0-9]+"
)
_GENERATION = re.compile(r"\b(?:blackwell|hopper|ampere|turing)\b")
"""Said in names of cards that are one without it."""


def looks(text: str) -> bool:
    """Whether a text is about a card of NVIDIA's, which need not be one that there is."""
    return bool(_LOOKS.search(text))


def find(text: str, rows: Sequence[Table]) -> Table | None:
    """The row of the card that is named, and of nothing besides."""
    wanted = {_short(text), _short(_GENERATION.sub(" ", text.lower()))}
    for row in rows:
        for model in row["models"]:
            short = _short(model)
            bare = re.sub(r"^(?:rtx|gtx)", "", short)
            if short in wanted or (len(bare) == 4 and bare in wanted):
                return row
    return None


def near(text: str, rows: Sequence[Table]) -> list[str]:
    """Names of cards that are spelt alike."""
    short = {_short(model): model for row in rows for model in row["models"]}
    plain = _short(text).replace("o", "0")
    return [short[name] for name in get_close_matches(plain, short, n=3, cutoff=0.6)]


def _short(name: str) -> str:
    return _NOISE.sub("", name.lower())
