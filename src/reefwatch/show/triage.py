"""A diagnosis in words; the pages of a bundle in the form that upstream templates ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

_WIDTH = 96
_INDENT = 13
_SAY = {
    "reporter": "reported by",
    "harmless": "harmless",
    "other": "also there",
    "nearest": "nearest known",
    "ruled out": "ruled out",
}


def line(told: Mapping[str, Any]) -> str:
    """One line, for the end of a run that died."""
    if not told["failed"]:
        return "triage: no known failure in the traceback"
    name = told["family"] or told["component"] or "no known family"
    sure = f", {told['confidence']:.0%} sure" if told["family"] else ""
    said = f"triage: layer {told['layer']}, {name}{sure}"
    return f"{said}; `reefwatch triage --last` tells cause and fix"


def text(told: Mapping[str, Any], remarks: Sequence[str] = ()) -> str:
    """The diagnosis on a terminal or a pipe; the last line counts."""
    out: list[str] = []
    if told["failed"] or told["layer"] != "unknown":
        out += _field(
            "layer", f"{told['layer']}" + (f" ({told['component']})" if told["component"] else "")
        )
        known = f"{told['family']}: {told['title']}" if told["family"] else "unknown" + _title(told)
        out += _field("family" if told["failed"] else "warning", known)
        place = (
            f"{told['file']}:{told['line_number']}"
            if told["file"]
            else f"line {told['line_number']}"
        )
        out += _field("root", place)
        out += _raw(told["root_line"])
        out += _field("sure", f"{told['confidence']:.0%}")
    out += _field("cause", told["cause"])
    if told["fix"] or told["commands"]:
        out += _field("fix", told["fix"])
        for command in told["commands"]:
            out += _raw(f"$ {command}")
    if told["family"] and told["checks"]:
        out += _field("look before", f"`reefwatch doctor`: {', '.join(told['checks'])}")
    elif told["family"] and told["doctor"] not in ("", "none"):
        out += _field("look before", told["doctor"])
    for one in told["also"]:
        if one["what"] in ("reporter", "harmless", "other", "ruled out"):
            out += _field(_SAY[one["what"]], _seen(one))
        elif one["what"] == "nearest":
            out += _field(_SAY["nearest"], f"{one['family']}: {one['title']}")
    if told["collect"]:
        out += _field("to be surer", "collect and triage again:")
        for command in told["collect"]:
            out += _raw(f"$ {command}")
    for source in told["sources"]:
        out += _field("source", source)
    for remark in remarks:
        out += _field("remark", remark)
    return "\n".join([*out, "", _count(told)])


def _title(told: Mapping[str, Any]) -> str:
    return f" ({told['title']})" if told["title"] else ""


def _seen(one: Mapping[str, Any]) -> str:
    place = f"{one['file']}:{one['line_number']}" if one["file"] else f"line {one['line_number']}"
    why = f"; {one['why']}" if one.get("why") else ""
    name = f"{one['family']}, " if one["family"] else ""
    return f"{name}{place}: {one['root_line'][:120]}{why}"


def _count(told: Mapping[str, Any]) -> str:
    kinds = [one["what"] for one in told["also"]]
    failures = 1 if told["failed"] else 0
    noise = kinds.count("harmless") + (1 if told["family"] and not told["failed"] else 0)
    known = (
        ", known" if told["failed"] and told["family"] else ", not known" if told["failed"] else ""
    )
    reporters = kinds.count("reporter")
    plural = "" if failures == 1 else "s"
    return f"{failures} failure{plural}{known}, {reporters} reporters, {noise} harmless"


def _field(name: str, said: str) -> list[str]:
    lines = wrap(said, _WIDTH - _INDENT, break_long_words=False, break_on_hyphens=False) or [""]
    head = f"{name:<{_INDENT - 1}} "
    return [head + lines[0], *(" " * _INDENT + more for more in lines[1:])]


def _raw(said: str) -> list[str]:
    """Text to be copied: its own lines, not wrapped."""
    return [" " * _INDENT + part for part in said.splitlines()]


def amd(told: Mapping[str, Any], facts: Mapping[str, str], excerpt: str) -> str:
    """The page for an issue at ROCm, by the headings of its template."""
    return "\n".join(
        [
            "### Problem Description",
            "",
            _summary(told),
            "",
            "```",
            excerpt,
            "```",
            "",
            *_heading("Operating System", facts.get("os", "")),
            *_heading("CPU", facts.get("cpu", "")),
            *_heading("GPU", facts.get("gpu", "")),
            *_heading("ROCm Version", facts.get("rocm", "")),
            *_heading("ROCm Component", told["component"] or ""),
            *_heading("Steps to Reproduce", "(the smallest script or command that shows it)"),
            *_heading(
                "(Optional for Linux users) Output of /opt/rocm/bin/rocminfo --support",
                _block(facts.get("rocminfo", "")),
            ),
            *_heading("Additional Information", _more(facts)),
        ]
    )


def pytorch(told: Mapping[str, Any], facts: Mapping[str, str], excerpt: str) -> str:
    """The page for an issue at PyTorch, by the headings of its template."""
    return "\n".join(
        [
            *_heading("🐛 Describe the bug", _summary(told)),
            "(the smallest script that shows it)",
            "",
            "```",
            excerpt,
            "```",
            "",
            *_heading("Versions", _block(facts.get("versions", ""))),
        ]
    )


def _summary(told: Mapping[str, Any]) -> str:
    known = (
        f" It looks like the known issue `{told['family']}`: {told['title']}."
        if told["family"]
        else ""
    )
    seen = f"\nSimilar: {', '.join(told['sources'])}" if told["sources"] else ""
    where = f"Layer {told['layer']}, component {told['component'] or 'unknown'}."
    return f"{where} Deciding line:\n`{told['root_line'] or ''}`\n{known}{seen}"


def _more(facts: Mapping[str, str]) -> str:
    found = facts.get("findings", "")
    said = (
        f"`reefwatch doctor` on the machine of this report:\n\n{_block(found)}\n\n" if found else ""
    )
    return f"{said}See environment.txt, excerpt.log and doctor.json of this archive."


def _heading(title: str, said: str) -> list[str]:
    return [f"### {title}", "", said or "(not known)", ""]


def _block(said: str) -> str:
    return f"```\n{said.rstrip()}\n```" if said.strip() else ""
