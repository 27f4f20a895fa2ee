"""What a run says of its precision without `--claim`: by the autocast that it used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from reefwatch.core.fact import Evidence, Unknown

_MIXED = {"bf16": "bf16-mixed", "f16": "fp16-mixed"}
_UNUSED = "no --claim was given and autocast was not used"


def claim_of(entered: Iterable[str], sites: Sequence[Any], compiled: bool) -> Evidence | Unknown:
    """The fact `claim.precision`; the value "" says that none is made.

    `entered` are the dtypes of the autocast regions, `sites` those of the ops that were seen,
    `compiled` is true when some ops could not be.
    """
    seen = [dtype for dtype in _MIXED if dtype in set(entered)]
    if len(seen) == 1:
        return Evidence("claim.precision", _MIXED[seen[0]], source="autocast state seen")
    if seen:
        return Unknown("autocast was used with two dtypes, and no --claim was given")
    if not sites:
        return Unknown(f"{_UNUSED}; no step was examined at op level")
    if compiled:
        return Unknown(f"{_UNUSED} outside of compiled code")
    if any(site.autocast != "off" for site in sites):
        return Unknown("no --claim was given, and autocast was switched on in an unknown way")
    return Evidence("claim.precision", "", source=_UNUSED)
