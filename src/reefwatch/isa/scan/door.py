"""The door: everything that can be said of a program without running it."""

from __future__ import annotations

from dataclasses import dataclass, field

from reefwatch.isa.blocks import Refusal, translate
from reefwatch.isa.generations import UnknownTarget, generation_of
from reefwatch.isa.launch import parse
from reefwatch.isa.scan.finding import Found
from reefwatch.isa.scan.order import acquires, reads_at_barriers
from reefwatch.isa.scan.paths import missing_waits
from reefwatch.isa.scan.products import matrix_use
from reefwatch.isa.scan.resources import resources
from reefwatch.isa.scan.software_waits import software_waits
from reefwatch.isa.text import Program


@dataclass
class Scan:
    """Facts by name, matrix instructions by name, findings, and what could not be looked at."""

    facts: dict[str, int] = field(default_factory=dict)
    matrix: dict[str, int] = field(default_factory=dict)
    found: list[Found] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    unscanned: tuple[str, ...] = ()  # scans that need a modelled target or program


def scan(program: str | Program, target: str, *, shared: int = 0) -> Scan:
    """Read a program for a target; any AMD target, modelled or not. Raises UnreadableProgram."""
    parsed = parse(program) if isinstance(program, str) else program
    facts, found = resources(parsed, target, shared)
    matrix, more = matrix_use(parsed)
    found += more + reads_at_barriers(parsed) + acquires(parsed, target)
    made = Scan(facts, matrix, found)
    try:
        translation = translate(parsed, generation_of(target))
    except UnknownTarget:
        made.unscanned = ("missing waits", "software waits")
        return made
    if translation.refusals:
        made.refused = list(translation.refusals)
        made.unscanned = ("missing waits", "software waits")
        return made
    made.found += missing_waits(translation)
    if translation.generation.name == "gfx9":
        made.found += software_waits(translation)
    return made
