"""What a GPU kernel's name tells: the rules of `kernel_rules.toml`, evaluated.

A name is evidence of the weaker kind. What it does not say is "unknown", never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from reefwatch.data import table

UNKNOWN = "unknown"
FIELDS = ("library", "compute_dtype", "accumulate_dtype", "matrix_core", "naive", "role")
_NOISE = re.compile(r"\s*\[clone [^\]]*\]|\.kd$|\.kd(?=\b)")
# profilers demangle each in their own way; the rules know one spelling
_SPELLINGS = (
    (re.compile(r"\[lambda(\([^()\[\]]*\)) \(instance (\d+)\)\]"), r"{lambda\1#\2}"),  # Nsight
    (re.compile(r"\([A-Za-z][\w: ]*\)(?=-?\d)"), ""),  # (bool)1, (unsigned int)8
    (re.compile(r"\b(?:unsigned )?(?:bool|int|long|short|char)=(?=-?\d)"), ""),  # nvprof: int=5
    (re.compile("<unnamed>"), "(anonymous namespace)"),
    (re.compile(r"operator \(\)"), "operator()"),
    (re.compile(r" (?=[*&])"), ""),
)


@dataclass(frozen=True)
class Kernel:
    """What is known of one kernel by its name."""

    name: str
    library: str = "other"
    compute_dtype: str = UNKNOWN
    accumulate_dtype: str = UNKNOWN
    matrix_core: str = UNKNOWN
    naive: str = UNKNOWN
    role: str = UNKNOWN
    """gemm conv attention norm cast promotion layout im2col copy comm pointwise helper."""

    def as_dict(self) -> dict[str, str]:
        """The fields that `reefwatch trace --names` prints."""
        told = asdict(self)
        del told["role"]
        return told


@dataclass(frozen=True)
class Rule:
    """One observation inside a family: what is said when a pattern is found."""

    says: Mapping[str, str]
    when: re.Pattern[str]
    unless: re.Pattern[str] | None
    words: Mapping[str, str]
    source: str = ""

    def read(self, name: str) -> dict[str, str]:
        """The fields that this rule gives for a name; empty when it does not apply."""
        found = self.when.search(name)
        if found is None or (self.unless is not None and self.unless.search(name)):
            return {}
        told = dict(self.says)
        for group, field in (("dtype", "compute_dtype"), ("acc", "accumulate_dtype")):
            word = found.groupdict().get(group)
            if word is not None:
                told[field] = self.words.get(word, UNKNOWN)
        return told


@dataclass(frozen=True)
class Family:
    """The kernels of one library or generator, and the rules that read their names."""

    name: str
    match: re.Pattern[str]
    says: Mapping[str, str]
    rules: tuple[Rule, ...]
    source: str = ""


def classify(name: str) -> Kernel:
    """The fields of one kernel name, mangled or demangled."""
    return read(name, families())


def read(name: str, known: Iterable[Family]) -> Kernel:
    """The fields of one name after the given families."""
    bare = _NOISE.sub("", name.strip())
    for pattern, spelling in _SPELLINGS:
        bare = pattern.sub(spelling, bare)
    for family in known:
        if family.match.search(bare):
            told: dict[str, str] = {}
            for rule in family.rules:
                for field, value in rule.read(bare).items():
                    told.setdefault(field, value)
            return Kernel(name, **{**family.says, **told})
    return Kernel(name)


@cache
def families() -> tuple[Family, ...]:
    """The shipped rules. Raises ValueError, by name, for a malformed one."""
    return build(table("kernel_rules.toml"))


def build(rules: Mapping[str, Any]) -> tuple[Family, ...]:
    """The families of a parsed table."""
    types: Mapping[str, str] = rules["types"]
    spelled = "|".join(re.escape(word) for word in sorted(types, key=len, reverse=True))
    made = []
    for family in rules["family"]:
        where = family["name"]
        made.append(
            Family(
                where,
                _pattern(family["match"], spelled, where),
                _fields(family, where),
                tuple(_rule(rule, rules, spelled, where) for rule in family.get("rule", ())),
                family.get("source", ""),
            )
        )
    return tuple(made)


def _rule(rule: Mapping[str, Any], rules: Mapping[str, Any], spelled: str, where: str) -> Rule:
    words = rules["letters"][rule["letters"]] if "letters" in rule else rules["types"]
    unless = rule.get("unless")
    return Rule(
        _fields(rule, where),
        _pattern(rule["when"], spelled, where),
        None if unless is None else _pattern(unless, spelled, where),
        words,
        rule.get("source", ""),
    )


def _fields(given: Mapping[str, Any], where: str) -> dict[str, str]:
    told = {key: value for key, value in given.items() if key in FIELDS}
    other = (
        set(given) - set(told) - {"name", "match", "when", "unless", "letters", "source", "rule"}
    )
    if other:
        raise ValueError(f"kernel rules, {where}: {', '.join(sorted(other))} is no field")
    return told


def _pattern(text: str, spelled: str, where: str) -> re.Pattern[str]:
    try:
        return re.compile(text.replace("{T}", spelled))
    except re.error as error:
        raise ValueError(f"kernel rules, {where}: {error}: {text}") from None
