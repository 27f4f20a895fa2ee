"""The report as one HTML file that opens offline, or as a fragment for a notebook."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

from reefwatch.core.report import Report
from reefwatch.show import page, words
from reefwatch.show.limits import Limits

if TYPE_CHECKING:
    from jinja2 import Environment

LARGEST = 2_000_000
"""Bytes of the file. A report that would be larger is told with less of everything."""


_LIMITS = (
    Limits(findings=40, evidence=12, rows=60, nodes=500, points=480, text=1500, page=8000),
    Limits(findings=12, evidence=8, rows=40, nodes=200, points=240, text=500, page=2000),
    Limits(findings=3, evidence=4, rows=20, nodes=60, points=120, text=160, page=0),
    Limits(findings=1, evidence=2, rows=8, nodes=20, points=60, text=60, page=0),
)


def render(
    report: Report, pages: Mapping[str, str] | None = None, *, fragment: bool = False
) -> str:
    """One HTML document of at most 2 MB without any reference to the outside.

    `pages` are the help pages by code. With `fragment` only the body, with its own style and
    without a script, to be put into another page.
    """
    made = ""
    for limits in _LIMITS:
        template = _environment().get_template("fragment.html.j2" if fragment else "report.html.j2")
        made = template.render(**page.context(report, pages or {}, limits))
        if len(made.encode("utf-8", "replace")) <= LARGEST:
            break
    return made


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("reefwatch.show", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    folder = files("reefwatch.show") / "templates"
    script = (folder / "report.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment.globals |= {
        "style": Markup((folder / "report.css").read_text("utf-8")),
        "script": Markup(script),
        "script_hash": f"sha256-{digest}",
        "markup": Markup,
    }
    environment.filters |= {
        "seconds": words.seconds,
        "amount": words.amount,
        "size": words.size,
        "share": words.share,
        "flops": words.flops,
    }
    return environment
