"""`reefwatch plan`: one consistent set for a card, written out, and installed when asked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reefwatch.core.errors import ReefwatchError, UsageError

if TYPE_CHECKING:
    from reefwatch.core.report import Report
    from reefwatch.plan.sets import Conflict, Plan, Wishes

SOURCE = "REEFWATCH_TORCH_SOURCE"
"""Names an index to take torch from in place of the table's; `pip` for pip's own."""
OLD_DAYS = 120
"""Tables older than this are said to be old: ROCm and torch release every one to three months."""


_TABLES = ("gpus", "rocm", "torch", "libs")
LEAVABLE = ("torchvision", "torchaudio")
_URL = re.compile(r"(?:https?|file)://[\w.~:/?#\[\]@!$&*+,;=%-]+")
_VERSION = re.compile(r"v?\d+(\.\d+){0,2}(\.post\d+)?(\+[\w.]+)?")


def wishes(
    gpu: str = "",
    os_name: str = "",
    python: str = "",
    torch: str = "",
    rocm: str = "",
    channel: str = "",
    libraries: Sequence[str] = (),
    without: Sequence[str] = (),
    torch_source: str = "",
    *,
    host: Any = None,
) -> Wishes:
    """What is wished; what is left out is taken from this machine."""
    from reefwatch.gather.host import LiveHost
    from reefwatch.plan import solver
    from reefwatch.plan.sets import Wishes

    wrong = [name for name in without if name not in LEAVABLE]
    if wrong:
        raise UsageError(f"--without {wrong[0]!r}: only {' and '.join(LEAVABLE)} can be left out")
    for what, said in (("torch", torch), ("rocm", rocm)):
        if said and not _VERSION.fullmatch(said):
            raise UsageError(f"--{what} {said!r} is no version such as 2.13 or 7.2")
    here = host or LiveHost()
    source = torch_source or here.environ.get(SOURCE, "")
    if source and not (source == "pip" or _URL.fullmatch(source)):
        where = "--torch-source" if torch_source else SOURCE
        raise UsageError(f"{where} {source!r} is neither an address such as https://... nor pip")
    vendor = "amd"
    if not gpu:
        vendor, gpu = _card(here)
    return Wishes(
        vendor,
        gpu,
        "",
        os_name or _system(here),
        python or ".".join(map(str, sys.version_info[:2])),
        torch,
        rocm,
        channel,
        solver.wished(libraries),
        tuple(without),
        source,
    )


def plan(
    asked: Wishes,
    tables: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    data: str | os.PathLike[str] | None = None,
) -> Plan | Conflict:
    """The set, or the conflict. `tables` replaces the shipped ones, by name.

    `data` is a TOML file whose rows are laid over the shipped tables. Raises UsageError for it.
    """
    from reefwatch.data import tables as shipped
    from reefwatch.plan.solver import Tables, solve

    laid = shipped.load(None if data is None else Path(data))
    given = tables or {}
    rows = {name: given.get(name) or getattr(laid, name) for name in _TABLES}
    found = solve(asked, Tables(**rows))
    return (
        found if data is None else _with_remark(found, f"rows of {data} are laid over the tables")
    )


def _with_remark(found: Plan | Conflict, words: str) -> Plan | Conflict:
    from dataclasses import replace

    from reefwatch.plan.sets import Conflict

    if isinstance(found, Conflict):
        return replace(found, words=f"{found.words} ({words})")
    return replace(found, remarks=(*found.remarks, words))


def render(kind: str, found: Plan | Conflict) -> str:
    """A plan in one of `reefwatch.show.plan.FORMATS`; a conflict as text, or either as json."""
    from dataclasses import asdict

    from reefwatch.plan.sets import Conflict
    from reefwatch.show import json as as_json
    from reefwatch.show import plan as show

    if isinstance(found, Conflict):
        said = {**asdict(found), "nearest": found.nearest and found.nearest.plain()}
        if kind == "json":
            return as_json.render(_report({"conflict": said}))
        return show.refusal(said)
    if kind == "json":
        return as_json.render(_report({"plan": found.plain()}))
    return show.render(kind, found.plain())


def _report(facts: Mapping[str, Any]) -> Report:
    from reefwatch.core.report import Report

    return Report("plan", (), facts=facts)


def write(found: Plan, folder: str | os.PathLike[str]) -> list[Path]:
    """All files of a plan in a folder. Raises UsageError."""
    from reefwatch.show.plan import FILES

    made = []
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for kind, name in FILES.items():
            path = Path(folder) / name
            path.write_text(render(kind, found), encoding="utf-8")
            made.append(path)
    except OSError as error:
        raise UsageError(f"--out {os.fspath(folder)}: {error.strerror or error}") from None
    return made


def apply(
    found: Plan, venv: str | os.PathLike[str], say: Callable[[str], None] = lambda _: None
) -> dict[str, str]:
    """Install a plan into a virtual environment, new or not; what is there then, by name.

    Raises ReefwatchError when pip fails or when something else than planned is installed.
    """
    python = _venv(found, Path(venv), say)
    own = [pin for pin in found.pins if pin.own_index]
    others = [pin for pin in found.pins if not pin.own_index]
    index = ["--index-url", found.index] if found.index else []
    say(f"installing {', '.join(map(str, own))}")
    _pip(python, [*index, *map(str, own)], found.environment)
    if others:
        constraints = Path(venv) / "constraints.txt"
        constraints.write_text("".join(f"{pin.name}=={pin.version}\n" for pin in own))
        for pin in others:
            say(f"installing {pin}")
            held = ["--constraint", str(constraints)]
            _pip(python, [*held, *pin.build, str(pin)], found.environment)
    there = installed(python)
    wrong = [
        f"{pin.name} {there.get(pin.name, 'is missing')} instead of {pin.version}"
        for pin in found.pins
        if there.get(pin.name) != pin.version
    ]
    if wrong:
        raise ReefwatchError(f"other than planned: {'; '.join(wrong)}")
    return {pin.name: there[pin.name] for pin in found.pins}


def _venv(found: Plan, venv: Path, say: Callable[[str], None]) -> Path:
    python = venv / "bin" / "python"
    if not python.exists():
        maker = sys.executable
        wanted = found.wishes.python
        if wanted and wanted != ".".join(map(str, sys.version_info[:2])):
            maker = f"python{wanted}"
        say(f"making {venv} with {maker}")
        _run([maker, "-m", "venv", str(venv)], {})
    asked = "import sys; print('.'.join(map(str, sys.version_info[:2])))"
    version = _run([str(python), "-c", asked], {}).strip()
    if found.wishes.python and version != found.wishes.python:
        raise UsageError(f"{venv} has Python {version}, the plan is for {found.wishes.python}")
    return python


def installed(python: Path) -> dict[str, str]:
    """Versions by distribution name, as an environment's own metadata says."""
    code = (
        "import importlib.metadata as m, json; "
        "print(json.dumps({d.metadata['Name'].lower(): d.version for d in m.distributions()}))"
    )
    import json

    found: dict[str, str] = json.loads(_run([str(python), "-I", "-c", code], {}))
    return found


def _pip(python: Path, words: Sequence[str], environment: Mapping[str, str]) -> None:
    _run([str(python), "-m", "pip", "install", "--disable-pip-version-check", *words], environment)


def _run(command: Sequence[str], environment: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            list(command),
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise ReefwatchError(f"{command[0]}: {error.strerror or error}") from None
    if done.returncode:
        told = [line for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in told if "ERROR" in line] or told[-3:]
        raise ReefwatchError(f"{' '.join(command[:4])} failed: {' '.join(errors[:3])}")
    return done.stdout


def _card(host: Any) -> tuple[str, str]:
    """(vendor, card or target) of this machine; of several, the one that is no part of a processor.

    Raises UsageError for an AMD card that cannot be named.
    """
    from reefwatch.api import scan
    from reefwatch.core.fact import Evidence

    found = scan.cards(host)
    rows: Any = found.value if isinstance(found, Evidence) else ()
    known = [row for row in rows if isinstance(row.get("gfx"), str)]
    if known:
        best = min(known, key=lambda row: row.get("integrated") is True)
        return "amd", best["name"] if isinstance(best["name"], str) else best["gfx"]
    if rows:
        raise UsageError("an AMD card is here whose target is not known; --gpu names it")
    return ("nvidia", "NVIDIA") if host.find("/proc/driver/nvidia/gpus/*") else ("cpu", "cpu")


def _system(host: Any) -> str:
    """`ubuntu-24.04` of /etc/os-release; empty when it does not say."""
    from reefwatch.plan import systems

    text = host.read("/etc/os-release")
    if not isinstance(text, str):
        return ""
    rows = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', text, re.MULTILINE))
    name, version = str(rows.get("ID", "")), str(rows.get("VERSION_ID", ""))
    name = "oracle" if name == "ol" else name
    found = f"{name}-{version}" if version else name
    return found if systems.read(found) else "linux"


def is_old(found: Plan, today: Any) -> bool:
    """True when the tables are older than OLD_DAYS."""
    from datetime import date

    try:
        return bool((today - date.fromisoformat(found.asof)).days > OLD_DAYS)
    except ValueError:
        return True


def look_over(
    found: Plan, venv: str | os.PathLike[str], say: Callable[[str], None] = lambda _: None
) -> int:
    """Look an applied plan over; the exit code.

    `doctor` is run by the environment's own Python, and the GPU code of the wheels is held against
    the card that was planned for, which need not be here.
    """
    code = _doctor(Path(venv) / "bin" / "python", say)
    folders = sorted(Path(venv).glob("lib/python3.*/site-packages"))
    if found.wishes.vendor != "amd" or not folders:
        return code
    from reefwatch.api.scan import scan
    from reefwatch.core.report import ExitPolicy, exit_code
    from reefwatch.show import text

    report = scan(folders[0], [_loads_for(found)])
    say(text.render(report, color=False, width=100))
    return code or exit_code(report, ExitPolicy())


def _loads_for(found: Plan) -> str:
    """The target whose code is loaded: the card's, or that of an override."""
    override = found.environment.get("HSA_OVERRIDE_GFX_VERSION")
    if override is None:
        return found.wishes.gfx
    major, minor, stepping = map(int, override.split("."))
    return f"gfx{major}{minor:x}{stepping:x}"


def _doctor(python: Path, say: Callable[[str], None]) -> int:
    """Run `doctor` with another Python: a folder with nothing but this package is on its path."""
    import tempfile

    import reefwatch

    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.abspath(reefwatch.__path__[0]), os.path.join(folder, "reefwatch"))
        environ = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [os.path.abspath(python), "-m", "reefwatch", "doctor"]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    said = done.stdout if done.returncode in (0, 3) else done.stderr
    say(f"doctor of {python}:\n{said.rstrip()}")
    return done.returncode if done.returncode == 3 else 0
