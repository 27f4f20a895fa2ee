"""Text and numbers as a reader sees them: nothing hidden in a string, a unit behind each number."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""Control characters (terminal escapes among them), marks that turn the direction of text, lone
surrogates and what XML 1.0 (section 2.2) does not allow."""
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def _escape(hidden: re.Match[str]) -> str:
    number = ord(hidden[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def visible(text: object) -> str:
    """The text with hidden characters written as escapes; tabs and line ends stay."""
    return _HIDDEN.sub(_escape, str(text).replace("\r\n", "\n"))


def line(text: object, limit: int = 2000) -> str:
    """One line of at most `limit` characters, nothing hidden in it."""
    text = str(text)
    if len(text) > 2 * limit:  # what would be cut need not be read
        text = f"{text[:limit]}…{text[-limit:]}"
    return clip(" ".join(visible(text).split()), limit)


def clip(text: str, limit: int) -> str:
    """The text, its middle left out when it is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 3
    return text[: limit - 1 - tail] + "…" + text[len(text) - tail :]


def clip_end(text: str, limit: int) -> str:
    """The text, cut after a word when it is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    kept = text[: limit - 1]
    word = kept.rfind(" ")
    return (kept[:word] if word > limit // 2 else kept).rstrip(" ,;:(") + "…"


def plain(text: str) -> str:
    """The text in ASCII."""
    for mark, instead in (
        ("…", "..."),
        ("→", "->"),
        ("×", "x"),
        ("°", " "),
        ("–", "-"),
        ("·", "-"),
        ("µ", "u"),
    ):
        text = text.replace(mark, instead)
    return text.encode("ascii", "backslashreplace").decode("ascii")


def number(value: Any) -> float | None:
    """The value as a float (it may be NaN or infinite); None when it is no number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def finite(value: Any) -> float | None:
    """The value as a float; None when it is no number, NaN or infinite."""
    known = number(value)
    return known if known is not None and math.isfinite(known) else None


def amount(value: float) -> str:
    """A number with three digits that count: 0.0123, 1.23, 12.3, 1,234."""
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if value == int(value) and size < 1e6:
        return f"{int(value):,}"
    if size >= 1e6 or size < 1e-3:
        return f"{value:.3g}"
    return (
        f"{value:,.0f}" if size >= 1000 else f"{value:.{max(0, 2 - math.floor(math.log10(size)))}f}"
    )


def size(count: float) -> str:
    """Bytes: 512 B, 1.50 MiB."""
    step = 0
    while abs(count) >= 1024 and step < len(_BINARY) - 1:
        count, step = count / 1024, step + 1
    return f"{amount(count)} {_BINARY[step]}"


def seconds(value: float) -> str:
    """A time: 12.3 ms, 4.56 s, 3 min 20 s, 2 h 05 min."""
    if not math.isfinite(value):
        return f"{value} s"
    if abs(value) < 1:
        unit, scale = ("ms", 1e3) if abs(value) >= 1e-3 or value == 0 else ("µs", 1e6)
        return f"{amount(value * scale)} {unit}"
    if abs(value) < 120:
        return f"{amount(value)} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 120:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60:,} h {minutes % 60:02d} min"


def share(part: float) -> str:
    """A share of one, never rounded up to all or down to nothing: 99.9 %, 0.1 %."""
    if not math.isfinite(part):
        return "?"
    percent = 100 * part
    if percent in (0.0, 100.0):
        return f"{percent:.0f} %"
    if percent < 0.1:
        return "< 0.1 %"
    if 99.9 < percent < 100:
        return "> 99.9 %"
    return f"{percent:.1f} %" if percent < 10 or percent > 99 else f"{percent:.0f} %"


def flops(value: float) -> str:
    """Floating-point operations: 1.23 GFLOP."""
    for scale, unit in ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP")):
        if abs(value) >= scale:
            return f"{amount(value / scale)} {unit}"
    return f"{amount(value)} FLOP"


_UNITS = {
    "bytes": size,
    "byte": size,
    "B": size,
    "s": seconds,
    "seconds": seconds,
    "share": share,
    "flops": flops,
    "flop": flops,
}


def quantity(value: Any, unit: str = "", limit: int = 400) -> str:
    """A value of an evidence with its unit, on one line."""
    known = number(value)
    if known is not None:
        written = _UNITS.get(unit)
        return written(known) if written else line(f"{_exact(value, known)} {unit}", limit)
    if isinstance(value, Mapping):
        text = ", ".join(
            f"{key} {quantity(part, unit, limit)}" for key, part in list(value.items())[:50]
        )
    elif isinstance(value, (list, tuple)):
        more = f", and {len(value) - 20:,} more" if len(value) > 20 else ""
        text = ", ".join(quantity(part, unit, limit) for part in value[:20]) + more
    elif value is None:
        text = "none"
    elif isinstance(value, bool):
        text = "yes" if value else "no"
    else:
        text = str(value)
        text = f"{text} {unit}" if unit and not isinstance(value, str) else text
    return line(text, limit)


def _exact(value: Any, known: float) -> str:
    if isinstance(value, int) and abs(value) < 10**15:
        return f"{value:,}"
    return f"{known:.6g}"


def short_path(file: str, cwd: str = "") -> str:
    """A path relative to the folder of the run, or from site-packages on."""
    if cwd and cwd != "/" and file.startswith(cwd.rstrip("/") + "/"):
        return file[len(cwd.rstrip("/")) + 1 :]
    for folder in ("/site-packages/", "/dist-packages/"):
        if folder in file:
            return file.rsplit(folder, 1)[1]
    return file


def several(count: float, one: str, many: str = "") -> str:
    """`1 step`, `2 steps`."""
    return f"{amount(count)} {one if count == 1 else many or one + 's'}"
