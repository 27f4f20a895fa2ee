"""The verb `triage`: read logs, decide, and write what others may see."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from reefwatch.core.errors import ReefwatchError, UsageError

CHUNK = 1 << 20
STDIN = "-"
_MOST, _DENSE = 1 << 30, 100
"""An archive of more unpacked bytes than this, and more than so many times its size, is no log."""
_PACKED = ((b"\x1f\x8b", "gzip"), (b"BZh", "bz2"), (b"\xfd7zXZ\x00", "lzma"))


@dataclass(frozen=True)
class Answer:
    """A diagnosis and what stood in its way."""

    diagnosis: Any
    """A reefwatch.triage.diagnosis.Diagnosis."""
    remarks: tuple[str, ...] = ()
    """What the reader should know: logs that were not read, or not to their end."""
    unread: tuple[str, ...] = ()
    """Logs that could not be read; the answer rests on the others."""
    logs: tuple[str, ...] = field(default=(), repr=False)

    @property
    def read(self) -> tuple[str, ...]:
        """The logs that the answer rests on."""
        return tuple(log for log in self.logs if not self._lost(f"{log}: "))

    def _lost(self, mark: str) -> bool:
        return any(text.startswith(mark) for text in self.unread)

    @property
    def readable(self) -> bool:
        return len(self.unread) < len(self.logs)


def triage(
    logs: Sequence[str | os.PathLike[str]],
    *,
    machine: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    stdin: IO[bytes] | None = None,
) -> Answer:
    """The diagnosis of the logs of one run (`-` is stdin), the ranks together.

    `machine` is a document of `reefwatch doctor --json`, or its file; without it, what this machine
    says of itself when it has a GPU. Raises UsageError when nothing is given.
    """
    from reefwatch.triage.catalogue import families
    from reefwatch.triage.decide import decide
    from reefwatch.triage.scan import Scanner
    from reefwatch.triage.stream import NotText

    paths = [os.fspath(log) for log in logs]
    if not paths:
        raise UsageError("no log to read: give its file, - for stdin, or --last")
    facts = _facts(machine)
    known = families()
    scanner = Scanner(known)
    scans: list[Any] = []
    names: list[str] = []
    unread: list[str] = []
    cut: list[str] = []
    for path in paths:
        try:
            with _opened(path, stdin, cut) as chunks:
                scans.append(scanner.read(chunks, len(names)))
            names.append("<stdin>" if path == STDIN else path)
        except NotText as error:
            unread.append(f"{path}: {error}")
        except (OSError, ValueError) as error:
            unread.append(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})")
    told = decide(scans, known, names, facts)
    if not scans:
        told = replace(told, cause="; ".join(unread))
    remarks = [*unread, *cut] if scans else []
    if facts == {} and machine is not None:
        remarks.append("--machine names no card and no vendor: it rules nothing out")
    return Answer(told, tuple(remarks), tuple(unread), tuple(paths))


def newest(base: str | os.PathLike[str] | None = None) -> list[str]:
    """What the newest watched run left of its end, a file per rank. Raises UsageError."""
    from reefwatch.store.folder import BASE

    root = Path(base or BASE)
    left = [root] if _left(root) else [folder for folder in root.glob("*/") if _left(folder)]
    if not left:
        raise UsageError(f"there is no watched run in {root}")
    run = max(left, key=lambda folder: max(file.stat().st_mtime for file in _left(folder)))
    found = sorted(str(file) for file in _left(run) if file.suffix == ".error")
    if not found:
        raise UsageError(
            f"{run} has no error of its own: its script ended well, or was killed from outside; "
            "give the log of its stderr"
        )
    return found


def _left(run: Path) -> list[Path]:
    """What the ranks of a run, and the children that they spawned, left in its folder."""
    kinds = ("rank*.jsonl", "rank*.error", "spawned-*/rank*.error")
    return [file for kind in kinds for file in run.glob(kind)]


def keep_unstarted(complaint: str, name: str, settings: Any) -> None:
    """Keep why a script does not compile, for `--last`; what fails here is of no weight."""
    from contextlib import suppress

    from reefwatch.core import launch
    from reefwatch.store import folder
    from reefwatch.store.scrub import Scrubber

    if not complaint:
        return
    with suppress(Exception):
        rank = launch.read(os.environ).rank
        place = folder.new(settings.out, name, rank)
        text = Scrubber.here().text(complaint) if settings.scrub else complaint
        (place / f"rank{rank}.error").write_text(text, encoding="utf-8", errors="replace")


def death(exception: str, trace: str, environ: Mapping[str, str]) -> str:
    """What is kept of an uncaught exception: the variables that matter, then the traceback."""
    lines = [f"{name}={value}" for name, value in sorted(environ.items()) if telling(name)]
    return "\n".join([*lines, trace.rstrip() or exception, ""])


def telling(name: str) -> bool:
    """True for a variable that says how the GPU stack was set up."""
    return name.startswith(_NAMES)


_NAMES = (
    *("HSA_", "HIP_", "ROCR_", "ROCM_", "ROCBLAS_", "HIPBLASLT_", "MIOPEN_", "AMD_", "GPU_DEVICE"),
    *("CUDA_VISIBLE", "PYTORCH_TUNABLEOP", "PYTORCH_HIP_ALLOC", "PYTORCH_CUDA_ALLOC", "TORCH_BLAS"),
    *("TORCH_ROCM", "NCCL_", "VLLM_ROCM", "LD_LIBRARY_PATH", "FLASH_ATTENTION_TRITON"),
)


def after_death(text: str, file: Path | None, say: Callable[[str], None] | None) -> None:
    """Keep the text beside the record, and say in one line what it is. Raises OSError."""
    from reefwatch.show import triage as show
    from reefwatch.store.scrub import Scrubber
    from reefwatch.triage.catalogue import families
    from reefwatch.triage.decide import decide
    from reefwatch.triage.scan import Scanner

    if file is not None:
        file.write_text(Scrubber.here().text(text), encoding="utf-8", errors="replace")
    if say is None:
        return
    known = families()
    told = decide([Scanner(known).read([text.encode(errors="replace")])], known)
    say(show.line(told.view()))


@contextmanager
def _opened(
    path: str, stdin: IO[bytes] | None, cut: list[str] | None = None
) -> Iterator[Iterator[bytes]]:
    """The bytes of a log in pieces, unpacked; `cut` takes what is amiss. Raises OSError."""
    if path == STDIN:
        yield _chunks(stdin or sys.stdin.buffer)
        return
    with open(path, "rb") as file:
        head = file.read(8)
        file.seek(0) if file.seekable() else None
        for magic, module in _PACKED:
            if head.startswith(magic):
                from importlib import import_module

                with import_module(module).open(file) as unpacked:
                    yield _unpacked(unpacked, path, os.path.getsize(path), cut)
                return
        yield _chunks(file, b"" if file.seekable() else head)


def _chunks(file: IO[bytes], first: bytes = b"") -> Iterator[bytes]:
    if first:
        yield first
    read = getattr(file, "read1", file.read)
    while chunk := read(CHUNK):
        yield chunk


def _unpacked(
    file: IO[bytes], path: str, packed: int, cut: list[str] | None = None
) -> Iterator[bytes]:
    """As `_chunks`, of an archive; one that is cut short as far as it goes. Raises OSError.

    One that swells beyond what a log does is read up to there when `cut` takes that, else refused.
    """
    import lzma
    import zlib

    most, size = max(_MOST, _DENSE * packed), 0
    remarks = [] if cut is None else cut
    try:
        for chunk in _chunks(file):
            size += len(chunk)
            if size > most:
                told = f"it unpacks to more than {most >> 20} MiB, over {_DENSE} times its size"
                if cut is None:
                    raise OSError(f"{told}: unpack it first if it is a log")
                cut.append(f"{path}: {told}: it was read up to there")
                return
            yield chunk
    except EOFError:
        remarks.append(f"{path}: the archive is cut short: it was read as far as it goes")
    except (zlib.error, lzma.LZMAError) as error:
        raise OSError(f"a damaged archive: {error}") from None


def _facts(machine: str | os.PathLike[str] | Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What is known of the machine. Raises UsageError for a file that is no JSON."""
    import json

    from reefwatch.triage.machine import facts

    if isinstance(machine, Mapping):
        return facts(machine)
    if machine is not None:
        try:
            told = json.loads(Path(machine).read_text(encoding="utf-8"))
            if not isinstance(told, dict):
                raise UsageError(
                    f"--machine {machine}: no document of `reefwatch doctor --json` (an object)"
                )
            return facts(told)
        except RecursionError:
            raise UsageError(f"--machine {machine}: nested too deeply") from None
        except OSError as error:
            raise UsageError(f"--machine {machine}: {error.strerror or error}") from None
        except ValueError as error:
            raise UsageError(f"--machine {machine}: no JSON ({error})") from None
    return _here()


def _here() -> dict[str, Any] | None:
    """The machine that runs us, if it has a GPU, as the kernel's topology tells it."""
    from reefwatch.gather.host import LiveHost

    host = LiveHost()
    archs = []
    for path in host.find("/sys/class/kfd/kfd/topology/nodes/*/properties"):
        text = host.read(path)
        for line in text.splitlines() if isinstance(text, str) else ():
            name, _, value = line.partition(" ")
            if name == "gfx_target_version" and value.strip().isdigit() and int(value):
                number = int(value)
                archs.append(f"gfx{number // 10000}{number // 100 % 100:x}{number % 100:x}")
    if archs:
        return {"archs": sorted(set(archs)), "gpus": len(archs), "vendor": "amd"}
    cards = [
        name for name in host.names("/dev") if name.startswith("nvidia") and name[6:].isdigit()
    ]
    return {"gpus": len(cards), "vendor": "nvidia"} if cards else None


def redact(logs: Sequence[str | os.PathLike[str]], target: str | os.PathLike[str]) -> int:
    """Write a copy of the logs that can be shared; the number of its lines.

    Raises UsageError for a log that is one of the files to be written or no file on disk, and for a
    target that cannot be written; ReefwatchError for no text.
    """
    count = 0
    for log in logs:
        if os.path.exists(target) and os.path.samefile(log, target):
            raise UsageError(f"--redact {target}: that is the log itself")
    shared = Shared(logs)
    with written(target, "--redact") as out:
        for log in logs:
            if len(logs) > 1:
                out.write(shared.text(f"==> {os.path.basename(os.fspath(log))} <==").encode())
                out.write(b"\n")
            for line in shared.lines(os.fspath(log)):
                out.write((line + "\n").encode(errors="replace"))
                count += 1
    return count


_SHORT, _KNOWN, _PIECE = 300, 20_000, 8_000
"""Characters of a line that is remembered, such lines, and characters of a line at once."""


class Shared:
    """Some logs as they may be shared: a name has one placeholder in all of them."""

    def __init__(self, logs: Sequence[str | os.PathLike[str]]) -> None:
        """Reads the logs once, for the names. Raises UsageError for what cannot be read twice."""
        from reefwatch.store.scrub import Scrubber
        from reefwatch.triage.redact import Redactor

        self._known: dict[str, str] = {}
        self._last = ("", "")
        self._scrubber = Scrubber.here()
        self._redactor = Redactor([self._scrubber.user], sorted(self._scrubber.hosts))
        for log in [os.fspath(log) for log in logs]:
            if log == STDIN or (os.path.exists(log) and not os.path.isfile(log)):
                raise UsageError(f"{log}: --redact and --bundle need the log as a file on disk")
            last = ""
            for text in _texts(log):
                if text != last:
                    self._redactor.look(text)
                last = text

    def line(self, text: str) -> str:
        """A line as it may be shared. Lines repeat, and are then known."""
        if self._redactor.inside:
            return self._redactor.line(text)
        known = self._known.get(text)
        if known is None:
            if text == self._last[0]:  # one that is too long to be remembered, again
                return self._last[1]
            known = self._scrubbed(self._redactor.line(text))
            if not self._redactor.inside:
                self._last = (text, known)
            if len(text) <= _SHORT and not self._redactor.inside:
                if len(self._known) > _KNOWN:
                    self._known.clear()
                self._known[text] = known
        return known

    def _scrubbed(self, text: str) -> str:
        """A long line goes piece by piece, cut at blanks: what it costs grows with its square."""
        done = []
        while len(text) > _PIECE:
            cut = text.rfind(" ", 1, _PIECE) if " " in text[:_PIECE] else _PIECE
            cut = cut if cut > 0 else _PIECE
            done.append(self._scrubber.text(text[:cut]))
            text = text[cut:]
        return "".join([*done, self._scrubber.text(text)])

    def text(self, text: str) -> str:
        """Some lines as they may be shared; not of the logs."""
        for line in text.splitlines():
            self._redactor.look(line)
        return "\n".join(map(self.line, text.splitlines()))

    def lines(self, log: str) -> Iterator[str]:
        """The lines of a log, each as it may be shared. Raises ReefwatchError for no text."""
        return map(self.line, _texts(log))


def _texts(path: str) -> Iterator[str]:
    from reefwatch.triage.stream import NotText, lines

    try:
        with _opened(path, None) as chunks:
            yield from lines(chunks)
    except NotText as error:
        raise ReefwatchError(f"{path}: {error}") from None
    except OSError as error:
        raise ReefwatchError(f"{path}: cannot be read ({error.strerror or error})") from None


@contextmanager
def written(target: str | os.PathLike[str], option: str) -> Iterator[IO[bytes]]:
    """A file to be written, there as a whole or not at all. Raises UsageError when it cannot be."""
    aside = None
    path = os.path.realpath(target)
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # a pipe, a device
            with open(path, "wb") as out:
                yield out
            return
        aside = f"{path}.{os.getpid()}.part"
        with open(aside, "xb") as out:
            yield out
        os.replace(aside, path)
    except OSError as error:
        raise UsageError(
            f"{option} {target}: cannot be written ({error.strerror or error})"
        ) from None
    finally:
        if aside is not None and os.path.exists(aside):
            os.unlink(aside)
