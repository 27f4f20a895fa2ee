"""Silences as they are written: in the configuration, in the user's source, in a baseline."""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Collection, Iterable, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any

from reefwatch.core.claim import CONTRACTS
from reefwatch.core.errors import UsageError
from reefwatch.core.finding import Finding
from reefwatch.core.silence import Silence
from reefwatch.store import baseline as baselines
from reefwatch.store import regular
from reefwatch.store.scrub import Scrubber

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_CODE = re.compile(r"([A-Z]{3,5})\d{3}")
_KEYS = ("code", "reason", "module", "file", "expires")
_SECTIONS = ("silence", "baseline")
_COMMENT = re.compile(r"#\s*reefwatch:\s*ignore\b\s*(?:\[([^\]]*)\])?[\s:,-]*(.*)")


def load(
    cwd: Path,
    config: Path | None = None,
    baseline: Path | None = None,
    codes: Collection[str] | None = None,
) -> tuple[Silence, ...]:
    """The silences of the configuration and of the baseline.

    `config` defaults to `reefwatch.toml` in `cwd`, else `[tool.reefwatch]` of its `pyproject.toml`;
    `baseline` to what the configuration names, else `reefwatch-baseline.json` in `cwd`. `codes` are
    those that exist; without them only a code's form is looked at.
    Raises UsageError, with file and key, for whatever is missing, unknown or of the wrong type.
    """
    table, source = _table(cwd, config)
    for key in table:
        if key not in _SECTIONS:
            raise UsageError(f"{source}: unknown key {key!r} (known: {', '.join(_SECTIONS)})")
    entries = table.get("silence", [])
    if not isinstance(entries, list):
        raise UsageError(f"{source}: silence must be a list of tables, written [[silence]]")
    said = [_entry(entry, f"{source}, silence {n}", codes) for n, entry in enumerate(entries, 1)]
    if baseline is None:
        named = table.get("baseline", baselines.FILE_NAME)
        if not isinstance(named, str):
            raise UsageError(f"{source}: baseline must be the path of a file")
        baseline = cwd / named
        if "baseline" not in table and not baseline.exists():
            return tuple(said)
    return (*said, *baselines.read(baseline))


def _table(cwd: Path, config: Path | None) -> tuple[Mapping[str, Any], str]:
    """Reefwatch's own table of the configuration, and what to call it."""
    if config is not None:
        own = config.name != "pyproject.toml"
        return (_toml(config) if own else _tool(_toml(config), config)), str(config)
    for path in (cwd / "reefwatch.toml", cwd / "pyproject.toml"):
        if not path.is_file():
            continue
        content = _toml(path)
        if path.name == "reefwatch.toml":
            return content, path.name
        return _tool(content, path), f"{path.name} [tool.reefwatch]"
    return {}, "reefwatch.toml"


def _toml(path: Path) -> Mapping[str, Any]:
    try:
        content: Mapping[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except ValueError as error:  # not TOML, or not UTF-8
        raise UsageError(f"{path}: {error}") from None
    except RecursionError:
        raise UsageError(f"{path}: nested too deeply") from None
    return content


def _tool(content: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    tools = content.get("tool", {})
    table = tools.get("reefwatch", {}) if isinstance(tools, dict) else tools
    if not isinstance(table, dict):
        raise UsageError(f"{path}: tool.reefwatch must be a table")
    return table


def _entry(entry: Any, origin: str, codes: Collection[str] | None) -> Silence:
    if not isinstance(entry, dict):
        raise UsageError(f"{origin}: must be a table")
    for key in entry:
        if key not in _KEYS:
            raise UsageError(f"{origin}: unknown key {key!r} (known: {', '.join(_KEYS)})")
    text: dict[str, str] = {}
    for key in ("code", "reason", "module", "file"):
        value = entry.get(key, "")
        if not isinstance(value, str):
            raise UsageError(f"{origin}: {key} must be text")
        text[key] = value
    wrong = _wrong_code(text["code"], codes)
    if wrong:
        raise UsageError(f"{origin}: code: {wrong}")
    if not text["reason"].strip():
        raise UsageError(f"{origin}: reason: a silence needs one")
    expires = _date(entry.get("expires"), origin)
    return Silence(
        text["code"], text["reason"], origin, text["module"], text["file"], expires=expires
    )


def _wrong_code(code: str, codes: Collection[str] | None) -> str:
    """What is wrong with a code, "" when nothing is."""
    if not code:
        return "a silence needs one"
    family = _CODE.fullmatch(code)
    if family is None or family[1] not in CONTRACTS:
        return f"{code!r} is not a code (they look like PREC001)"
    if codes is not None and code not in codes:
        return f"no check has the code {code}"
    return ""


def _date(value: Any, origin: str) -> date | None:
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value)
        except ValueError:
            raise UsageError(
                f"{origin}: expires: {value!r} is not a date like 2030-12-31"
            ) from None
    if isinstance(value, datetime):
        value = value.date()
    if value is not None and not isinstance(value, date):
        raise UsageError(f"{origin}: expires must be a date like 2030-12-31")
    return value


def inline(
    findings: Iterable[Finding],
    codes: Collection[str] | None = None,
    scrubber: Scrubber | None = None,
) -> tuple[tuple[Silence, ...], tuple[str, ...]]:
    """(silences, remarks) out of the comments in the files in which something was found.

    A comment is `# reefwatch: ignore[PREC001] reason`, on the line of the finding; several codes
    are separated by commas. One without a reason or with an unknown code silences nothing and is
    a remark: the run is over by then, and its report is not thrown away for a comment.
    """
    scrubber = scrubber or Scrubber.here()
    silences: list[Silence] = []
    remarks: list[str] = []
    for file in sorted({finding.place.file for finding in findings} - {""}):
        for line, comment in _comments(Path(scrubber.restore(file))):
            found = _COMMENT.search(comment)
            if found is None:
                continue
            origin = f"{re.split(r'[/]', file)[-1]}:{line}"
            names = [name.strip() for name in (found[1] or "").split(",")]
            for code in names:
                wrong = _wrong_code(code, codes)
                if not wrong and not found[2].strip():
                    wrong = f"ignore[{code}] needs a reason"
                if wrong:
                    remarks.append(f"{origin}: {wrong}")
                else:
                    reason = found[2].strip()
                    silences.append(Silence(code, reason, origin, file=file, line=line))
    return tuple(silences), tuple(remarks)


def _comments(path: Path) -> list[tuple[int, str]]:
    """(line, text) of the comments that speak to Reefwatch; none when the file is not there."""
    try:
        source = regular.source(path)
    except (OSError, SyntaxError, ValueError):  # gone, no text, or an encoding that nobody knows
        return []
    if "reefwatch:" not in source:
        return []
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError):  # no Python, so it has no comments either
        return []
    return [
        (token.start[0], token.string)
        for token in tokens
        if token.type == tokenize.COMMENT and "reefwatch:" in token.string
    ]
