"""The shipped tables and their loader."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Traversable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def entry(path: str) -> Traversable:
    """The shipped file or folder at `path`, written with "/": `compat/gpus.toml`."""
    return resources.files(__name__).joinpath(*path.split("/"))


@cache
def table(path: str) -> Mapping[str, Any]:
    """A shipped TOML file, parsed once. Not to be changed."""
    parsed: dict[str, Any] = tomllib.loads(entry(path).read_text(encoding="utf-8"))
    return parsed


def rows(path: str) -> Iterator[dict[str, str]]:
    """The rows of a shipped TSV file by its head line; lines that start with `#` are remarks."""
    lines = entry(path).read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if line and not line.startswith("#")]
    head = kept[0].split("\t")
    for line in kept[1:]:
        yield dict(zip(head, line.split("\t"), strict=False))
