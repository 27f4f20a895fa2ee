"""Apply silences: what is silenced breaks no claim, and is still told with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date

from reefwatch.core.finding import Finding, Outcome, Severity, Verdict
from reefwatch.core.silence import Silence


def apply(
    outcomes: Sequence[Outcome], silences: Sequence[Silence], today: date
) -> tuple[tuple[Outcome, ...], tuple[str, ...]]:
    """(outcomes without the silenced findings, remarks on silences that are expired or unused)."""
    valid = [silence for silence in silences if not silence.expired(today)]
    used: set[Silence] = set()
    said: list[Outcome] = []
    for outcome in outcomes:
        open_: list[Finding] = []
        silenced = list(outcome.silenced)
        for finding in outcome.findings:
            covering = [silence for silence in valid if silence.covers(outcome.code, finding)]
            used.update(covering)
            if covering:
                silenced.append((finding, covering[0].reason))
            else:
                open_.append(finding)
        changed = len(open_) < len(outcome.findings)
        said.append(_resettle(outcome, tuple(open_), tuple(silenced)) if changed else outcome)
    judged = {o.code for o in outcomes if o.verdict in (Verdict.HELD, Verdict.BROKEN)}
    unused = [silence for silence in valid if silence not in used]
    expired = [silence for silence in silences if silence.expired(today)]
    return tuple(said), (*_expired(expired), *_unused(unused, judged))


def _resettle(
    outcome: Outcome, findings: tuple[Finding, ...], silenced: tuple[tuple[Finding, str], ...]
) -> Outcome:
    """The outcome with what is left of its findings."""
    severity = _severity(outcome, findings)
    verdict = outcome.verdict
    if verdict is Verdict.BROKEN and severity is Severity.NOTE:
        verdict = outcome.beneath
    reasons = "; ".join(dict.fromkeys(reason for _, reason in silenced))
    count = f"{len(silenced)} finding{'s' if len(silenced) > 1 else ''} silenced"
    reason = f"{count}: {reasons}" + (f"; {outcome.reason}" if outcome.reason else "")
    return replace(
        outcome,
        verdict=verdict,
        severity=severity,
        findings=findings,
        silenced=silenced,
        reason=reason,
    )


def _severity(outcome: Outcome, left: Iterable[Finding]) -> Severity:
    """The highest severity among the findings that are left.

    An outcome tells the highest of all its findings, which is the check's severity less the
    weakness of the strongest evidence; so the check's own severity is that much higher.
    """
    if outcome.severity is Severity.NOTE:
        return Severity.NOTE
    weakness = Severity.ERROR - max(f.severity(Severity.ERROR) for f in outcome.findings)
    of_check = Severity(min(Severity.ERROR, outcome.severity + weakness))
    return max((finding.severity(of_check) for finding in left), default=Severity.NOTE)


def _expired(silences: Iterable[Silence]) -> list[str]:
    return [
        f"the silence of {silence.code} ({silence.origin}) expired on {silence.expires}: "
        f"{silence.reason}"
        for silence in silences
    ]


def _unused(silences: Iterable[Silence], judged: set[str]) -> list[str]:
    """A remark each; one for all of a baseline's, which may be many."""
    remarks = []
    of_baseline: dict[str, int] = {}
    for silence in silences:
        if silence.code not in judged:
            if not silence.fingerprint:
                remarks.append(
                    f"the silence of {silence.code} ({silence.origin}) was not put to use: "
                    f"{silence.code} was not judged here"
                )
        elif silence.fingerprint:
            of_baseline[silence.origin] = of_baseline.get(silence.origin, 0) + 1
        else:
            remarks.append(
                f"the silence of {silence.code} ({silence.origin}) matches nothing: "
                "it can be taken out"
            )
    for origin, count in of_baseline.items():
        word = "silence matches" if count == 1 else "silences match"
        remarks.append(f"{count} {word} nothing in {origin}: write it again to take them out")
    return remarks
