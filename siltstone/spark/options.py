"""The options of ``spark.read.format("siltstone")``: checked before anything is opened."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from siltstone.core.errors import SettingsError, SiltstoneError
from siltstone.core.words import GIB, check_segment_name
from siltstone.store.arguments import OFFSET_MAX

RANGE_BYTES_MAX: Final = GIB
"""A task that reads for minutes is work for minutes to repeat when it fails."""

KNOWN: Final = ("store", "segment", "range_bytes", "from", "to")
_UNITS: Final = {"": 0, "kib": 10, "mib": 20, "gib": 30}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What to read.

    Attributes:
        store: absolute path of the settings file, or of the folder that holds it.
        segment: name of the segment.
        range_bytes: bytes that one task reads; ``None`` lets the planning choose.
        start: lines that begin below it are left out; ``None`` means the first readable offset.
        stop: lines that begin at or beyond it are left out; ``None`` means the length.
    """

    store: str
    segment: str
    range_bytes: int | None = None
    start: int | None = None
    stop: int | None = None


def parse_options(given: Mapping[str, str]) -> ReadOptions:
    """Check what a user wrote; names of options are compared without case, as Spark does.

    Raises:
        SettingsError: an option is unknown, missing or out of its range; the message names it.
    """
    options = {name.lower(): value for name, value in given.items()}
    _check_names(options)
    start, stop = _number(options, "from", 0, OFFSET_MAX), _number(options, "to", 0, OFFSET_MAX)
    if start is not None and stop is not None and stop < start:
        raise SettingsError(f"option 'to' is {stop}, which lies below 'from' {start}")
    try:
        segment = check_segment_name(options["segment"])
    except SiltstoneError as error:
        raise SettingsError(f"option 'segment': {error}") from error
    return ReadOptions(
        store=str(Path(options["store"]).expanduser().absolute()),
        segment=segment,
        range_bytes=_number(options, "range_bytes", 1, RANGE_BYTES_MAX),
        start=start,
        stop=stop,
    )


def _check_names(options: Mapping[str, str]) -> None:
    if unknown := sorted(options.keys() - set(KNOWN)):
        hint = "; load() takes no path: say .option('store', path)" if "path" in unknown else ""
        raise SettingsError(
            f"unknown option: {', '.join(map(repr, unknown))}; known are {', '.join(KNOWN)}{hint}"
        )
    for name in ("store", "segment"):
        if not options.get(name):
            raise SettingsError(f"option {name!r} is missing")


def _number(options: Mapping[str, str], name: str, least: int, most: int) -> int | None:
    """Return a whole number, with or without a unit such as ``MiB``; ``None`` when not given."""
    if name not in options:
        return None
    text = str(options[name]).strip()
    match = re.fullmatch(r"([0-9]{1,20})\s*([kmg]ib|)", text.lower())
    if match is None:
        raise SettingsError(f"option {name!r} is a whole number of bytes such as 67108864 or 64MiB")
    value = int(match[1]) << _UNITS[match[2]]
    if not least <= value <= most:
        raise SettingsError(
            f"option {name!r} must be between {least} and {most} bytes, not {value}"
        )
    return value
