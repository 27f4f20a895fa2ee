"""A suite under watch as Markdown: outcomes by folder, skips by reason, findings by code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_OUTCOMES = ("passed", "failed", "error", "skipped", "xfailed")
MOST = 12
"""Rows of a list that are shown; the rest is counted."""


def render(suite: Any) -> str:
    """Markdown of an `api.ci.Suite`."""
    return "\n".join(_lines(suite)) + "\n"


def _lines(suite: Any) -> Iterator[str]:
    counts = suite.counts()
    said = ", ".join(f"{counts[word]} {word}" for word in _OUTCOMES if counts[word])
    versions = ", ".join(f"{name} {version}" for name, version in suite.versions.items())
    yield f"`{suite.command}`"
    yield ""
    yield f"{versions}: {len(suite.rows)} tests in {suite.seconds:.0f} s: {said}."
    yield ""
    yield from _table(
        ["folder", *_OUTCOMES, "watched steps", "with findings"],
        [_row(name, rows) for name, rows in _by_folder(suite.rows).items()],
    )
    yield from _failures(suite)
    yield from _skips(suite.rows)
    yield from _findings(suite)


def _row(name: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    counts = Counter(str(row["outcome"]) for row in rows)
    steps = sum(int(row.get("steps", 0)) for row in rows)
    found = sum(any(b["severity"] == "error" for b in row.get("broken", ())) for row in rows)
    return [name, *(str(counts[word]) for word in _OUTCOMES), str(steps), str(found)]


def _by_folder(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    told: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        file = str(row["test"]).partition("::")[0]
        told.setdefault(file.rpartition("/")[0] or ".", []).append(row)
    return dict(sorted(told.items()))


def _failures(suite: Any) -> Iterator[str]:
    bad = [row for row in suite.rows if row["outcome"] in ("failed", "error")]
    if bad:
        yield "### Failures"
        yield ""
    for row in bad[: 4 * MOST]:
        known = suite.known_as(row)
        told = f" (known: {known.address})" if known else ""
        yield f"- `{row['test']}` {row['outcome']}{told}: {_short(row['reason'])}"
    if len(bad) > 4 * MOST:
        yield f"- and {len(bad) - 4 * MOST} more"
    for known in suite.mended:
        yield f"- `{known.test}` is known to fail ({known.address}) and passed"
    if bad or suite.mended:
        yield ""


def _skips(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    reasons = Counter(_kind(str(row["reason"])) for row in rows if row["outcome"] == "skipped")
    if reasons:
        yield "### Skipped, by reason"
        yield ""
        yield from _table(
            ["reason", "tests"],
            [[_short(reason), str(count)] for reason, count in reasons.most_common(2 * MOST)],
        )


def _kind(reason: str) -> str:
    return re.sub(r"0x[0-9a-f]+|'/[^']*'", "...", reason) or "no reason given"


def _findings(suite: Any) -> Iterator[str]:
    told = suite.broken()
    watched = sum(bool(row.get("steps")) for row in suite.rows)
    yield "### What the contracts say"
    yield ""
    yield f"{watched} tests trained or ran a model in this process and were watched."
    yield ""
    if told:
        yield from _table(
            ["code", "severity", "tests", "first seen in"],
            [
                [
                    code,
                    found[0]["severity"],
                    str(len({one["test"] for one in found})),
                    f"`{found[0]['test']}`: {_short(found[0]['message'])}",
                ]
                for code, found in told.items()
            ],
        )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "| --- " * len(head) + "|"
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
    yield ""


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 160 else text[:157] + "..."
