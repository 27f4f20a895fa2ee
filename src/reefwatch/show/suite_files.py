"""A suite under watch as JUnit XML and as one HTML page: its tests and the contracts, merged."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from html import escape
from typing import Any

from reefwatch.show import words


def junit(suite: Any) -> str:
    """JUnit XML: one suite of the tests, one of the contracts with a case for each code and test.

    A failure that is known is skipped with its address; a finding below error level too.
    """
    root = ET.Element("testsuites", name="reefwatch ci suite")
    tests = ET.SubElement(root, "testsuite", name="tests")
    for row in suite.rows:
        file, _, name = str(row["test"]).partition("::")
        case = _case(tests, file, name or file, float(row["seconds"]))
        known = suite.known_as(row)
        reason = words.line(str(row["reason"]))
        if row["outcome"] in ("failed", "error") and known is None:
            kind = "failure" if row["outcome"] == "failed" else "error"
            ET.SubElement(case, kind, message=reason)
        elif row["outcome"] in ("failed", "error"):
            ET.SubElement(case, "skipped", message=words.line(f"known: {known.address}: {reason}"))
        elif row["outcome"] in ("skipped", "xfailed"):
            ET.SubElement(case, "skipped", message=reason)
    contracts = ET.SubElement(root, "testsuite", name="contracts")
    for row in suite.rows:
        _contracts(contracts, row)
    for one in (tests, contracts):
        for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            one.set(kind, str(len(one.findall(f"testcase/{tag}"))))
        one.set("tests", str(len(one)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(parent: ET.Element, group: str, name: str, seconds: float = 0.0) -> ET.Element:
    names = {"classname": words.line(group, 200), "name": words.line(name, 300)}
    return ET.SubElement(parent, "testcase", {**names, "time": f"{seconds:.3f}"})


def _contracts(parent: ET.Element, row: Mapping[str, Any]) -> None:
    """What is broken or unproven in a test that trained something."""
    broken = row.get("broken", ())
    for code, verdict in (row.get("verdicts") or {}).items() if row.get("steps") else ():
        case = _case(parent, code, str(row["test"]))
        found = [one for one in broken if one["code"] == code]
        if found:
            tag = "failure" if found[0]["severity"] == "error" else "skipped"
            text = "; ".join(f"{one['message']} ({one['place']})" for one in found)
            ET.SubElement(case, tag, message=words.line(text))
        elif verdict != "held":
            ET.SubElement(case, "skipped", message=str(verdict))


def html(suite: Any) -> str:
    """One page without scripts or links to elsewhere."""
    counts = ", ".join(f"{count} {word}" for word, count in sorted(suite.counts().items()))
    rows = []
    for row in suite.rows:
        known = suite.known_as(row)
        found = "; ".join(
            f"{one['code']} ({one['severity']}): {one['message']} {one['place']}"
            for one in row.get("broken", ())
        )
        cells = [
            str(row["test"]),
            str(row["outcome"]) + (f", known: {known.address}" if known else ""),
            f"{row['seconds']:.2f}",
            str(row.get("steps", "")),
            str(row["reason"])[:300],
            found,
        ]
        kind = "bad" if row["outcome"] in ("failed", "error") and known is None else ""
        said = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        rows.append(f'<tr class="{kind}">{said}</tr>')
    head = "".join(
        f"<th>{name}</th>"
        for name in ("test", "outcome", "seconds", "watched steps", "reason", "contracts")
    )
    versions = ", ".join(f"{name} {version}" for name, version in suite.versions.items())
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>reefwatch ci suite</title>\n'
        "<style>body{font:14px sans-serif;margin:2em}td,th{padding:.2em .6em;text-align:left;"
        "vertical-align:top;border-bottom:1px solid #ccc}.bad td{background:#fdd}</style>\n"
        f"<h1>{escape(counts)}</h1>\n<p><code>{escape(suite.command)}</code></p>\n"
        f"<p>{escape(versions)}</p>\n<table><tr>{head}</tr>\n" + "\n".join(rows) + "\n</table>\n"
    )
