"""What is asked of one watch, every word checked before anything runs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from reefwatch.core.errors import UsageError

CLAIMS = {
    "fp32": "fp32 32 32-true float32",
    "tf32": "tf32",
    "bf16": "bf16 bf16-true bfloat16",
    "fp16": "fp16 fp16-true 16-true float16",
    "bf16-mixed": "bf16-mixed",
    "fp16-mixed": "fp16-mixed 16-mixed",
}
"""Each precision that can be claimed, with its words (Lightning's `precision=` among them)."""
STRICT = ("precision", "loop", "dist")
"""The contracts that can raise at the first breach; those of judge/strict.py."""

ON_MISMATCH = ("report", "eager", "raise")
REFEREES = ("float64", "eager")


@dataclass(frozen=True)
class Settings:
    """What is asked of one watch."""

    claim: str | None = None
    exam: float = 20.0
    """Seconds that the exam may cost, once."""
    budget: float = 0.02
    """Share of the steady state's time."""
    strict: tuple[str, ...] = ()
    out: Path | None = None
    scrub: bool = True
    config: Path | None = None
    baseline: Path | None = None
    truth: bool = False
    """Compute each examined op once more, in float64."""
    record: Path | None = None
    """Where a reference is recorded."""
    against: Path | None = None
    """The reference that the run is to follow."""
    batch: Path | None = None
    """With a lone checkpoint as the reference: the tensors of one batch, and what is expected."""
    light: bool = False
    """Of later batches of a reference keep the digest alone."""
    noise: int = 0
    """Seed of the noise on the first step's floats; 0 for none."""
    most: int | None = None
    """Bytes that a reference may have."""
    kernels: bool = False
    """Hold the first launches of Triton kernels against witnesses."""
    hang: float = 60.0
    """Seconds without a step or a collective, in a run of several ranks, before that is told."""
    on_mismatch: str = "report"
    """What becomes of a call whose compiled code is wrong; one of `ON_MISMATCH`."""
    strict_casts: bool = False
    """Compiled code is to round where the original does."""
    referee: str = "float64"
    """What compiled code is held against; one of `REFEREES`."""
    locate: float = 120.0
    """Seconds after the run for the stage, op and repro of mismatches."""

    @staticmethod
    def of(
        claim: str | None = None,
        exam: float = 20.0,
        budget: float = 0.02,
        strict: Iterable[str] | str = (),
        out: str | os.PathLike[str] | None = None,
        *,
        config: str | os.PathLike[str] | None = None,
        baseline: str | os.PathLike[str] | None = None,
        scrub: bool = True,
        truth: bool = False,
        record: str | os.PathLike[str] | None = None,
        against: str | os.PathLike[str] | None = None,
        batch: str | os.PathLike[str] | None = None,
        light: bool = False,
        noise: int = 0,
        most: int | None = None,
        kernels: bool = False,
        hang: float = 60.0,
        on_mismatch: str = "report",
        strict_casts: bool = False,
        referee: str = "float64",
        locate: float = 120.0,
    ) -> Settings:
        """The settings, with absolute paths: the script may change folder. Raises UsageError."""
        if not exam >= 0:
            raise UsageError(f"the exam's allowance is in seconds, from 0 on, not {exam}")
        if not hang > 0:
            raise UsageError(f"the allowance for a hang is in seconds, above 0, not {hang}")
        if not 0 <= budget < 1:
            raise UsageError(f"the budget is a share from 0% to below 100%, not {budget:.0%}")
        if on_mismatch not in ON_MISMATCH:
            raise UsageError(f"{on_mismatch!r} on a mismatch; known: {', '.join(ON_MISMATCH)}")
        if referee not in REFEREES:
            raise UsageError(f"{referee!r} is no referee; known: {', '.join(REFEREES)}")
        if not locate >= 0:
            raise UsageError(f"the time to locate is in seconds, from 0 on, not {locate}")
        return Settings(
            precision(claim),
            float(exam),
            float(budget),
            contracts(strict),
            _absolute(out),
            scrub,
            _absolute(config),
            _absolute(baseline),
            bool(truth),
            _absolute(record),
            _absolute(against),
            _absolute(batch),
            bool(light),
            int(noise),
            most,
            bool(kernels),
            float(hang),
            on_mismatch,
            bool(strict_casts),
            referee,
            float(locate),
        )

    def beside(self, other: Settings) -> dict[str, Any]:
        """What is asked for here, other than by default, and differs in `other`; by name."""
        plain = Settings()
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name)
            not in (getattr(plain, field.name), getattr(other, field.name))
        }

    def plain(self) -> dict[str, Any]:
        """What goes into a record's header and to a child process, as JSON."""
        return {
            "claim": self.claim,
            "exam": self.exam,
            "budget": self.budget,
            "strict": list(self.strict),
            "scrub": self.scrub,
            "truth": self.truth,
            "kernels": self.kernels,
            "hang": self.hang,
            "record": None if self.record is None else str(self.record),
            "against": None if self.against is None else str(self.against),
            "on_mismatch": self.on_mismatch,
            "strict_casts": self.strict_casts,
            "referee": self.referee,
            "locate": self.locate,
        }


def precision(claim: str | None) -> str | None:
    """The precision that a claim's word stands for. Raises UsageError for an unknown word."""
    if claim is None:
        return None
    for name, words in CLAIMS.items():
        if claim.strip().lower() in words.split():
            return name
    raise UsageError(f"{claim!r} is not a known claim; known: {', '.join(CLAIMS)}")


def contracts(strict: Iterable[str] | str) -> tuple[str, ...]:
    """The contracts of `--strict`, `all` spelled out. Raises UsageError for an unknown word."""
    asked = strict.split(",") if isinstance(strict, str) else list(strict)
    for word in asked:
        if word not in (*STRICT, "all", ""):
            raise UsageError(f"{word!r} cannot be strict; known: {', '.join(STRICT)}, all")
    return STRICT if "all" in asked else tuple(word for word in STRICT if word in asked)


def _absolute(path: str | os.PathLike[str] | None) -> Path | None:
    return None if path is None else Path(os.path.abspath(os.path.expanduser(path)))
