"""Sizes and times as people write them: ``64MiB``, ``30s``."""

from __future__ import annotations

import re
from typing import Final

_SIZES: Final = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_TIMES: Final = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", re.ASCII)

SIZE_MAX: Final = 2**63 - 1
"""Offsets are signed on many services, so nothing is larger."""

TIME_MAX_S: Final = 100 * 366 * 86400.0
"""A hundred years: beyond it a clock's arithmetic is more likely wrong than the wish is right."""


def parse_size(value: object) -> int:
    """Return bytes from ``64MiB``, ``1.5GiB`` or a plain count of bytes.

    Raises:
        ValueError: anything else, a decimal unit such as ``MB``, or a fraction of a byte.
    """
    match = _NUMBER.fullmatch(_text(value))
    if match is None or match[2] not in _SIZES:
        units = ", ".join(unit for unit in _SIZES if unit)
        raise ValueError(f"not a size: {value!r}; write bytes, or a number and one of {units}")
    whole, _, fraction = match[1].partition(".")
    factor = _SIZES[match[2]]
    size, rest = divmod(int(whole + fraction) * factor, int(10 ** len(fraction)))
    if rest:
        raise ValueError(f"not a whole number of bytes: {value!r}")
    if size > SIZE_MAX:
        raise ValueError(f"size is too large: {value!r}")
    return size


def parse_time(value: object) -> float:
    """Return seconds from ``500ms``, ``30s``, ``15min``, ``1h`` or ``7d``.

    Raises:
        ValueError: anything else, also a number without a unit, which could mean anything.
    """
    match = _NUMBER.fullmatch(_text(value))
    if match is None or match[2] not in _TIMES:
        units = ", ".join(_TIMES)
        raise ValueError(f"not a time: {value!r}; write a number and one of {units}")
    seconds = float(match[1]) * _TIMES[match[2]]
    if seconds > TIME_MAX_S:
        raise ValueError(f"time is too long: {value!r}")
    return seconds


def _text(value: object) -> str:
    """Return the text of a number or a text; of anything else one that is neither size nor time."""
    known = isinstance(value, str | int | float) and not isinstance(value, bool)
    return str(value) if known else ""


def format_size(size: int) -> str:
    """Write ``size`` with the largest unit that divides it: the inverse of ``parse_size``."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size and size % _SIZES[unit] == 0:
            return f"{size // _SIZES[unit]}{unit}"
    return str(size)


def format_time(seconds: float) -> str:
    """Write ``seconds`` with the largest unit that divides them: the inverse of ``parse_time``."""
    milliseconds = round(seconds * 1000)
    for unit in ("d", "h", "min", "s"):
        length = round(_TIMES[unit] * 1000)
        if milliseconds and milliseconds % length == 0:
            return f"{milliseconds // length}{unit}"
    return f"{milliseconds}ms" if milliseconds else "0s"


def about_size(size: int) -> str:
    """Write ``size`` with the largest unit that it reaches, to two figures at least: ``1.5GiB``."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        count = size / _SIZES[unit]
        if count >= 1:
            return f"{count:.1f}{unit}" if count < 10 else f"{count:.0f}{unit}"
    return str(size)
