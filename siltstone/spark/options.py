"""The options of ``spark.read.format("siltstone")``: checked before anything is opened."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

from siltstone.core.constants import GIB, MIB, check_segment_name
from siltstone.core.errors import SettingsError, SiltstoneError
from siltstone.spark.catalog_tables import check_options
from siltstone.store.handles.arguments import OFFSET_MAX

RANGE_BYTES_MAX: Final = GIB
"""A task that reads for minutes is work for minutes to repeat when it fails."""

BLOCK_BYTES_MAX: Final = 256 * MIB
"""A row of Spark is copied a few times on its way."""

SEGMENTS_MAX: Final = 100_000
"""Segments of one read: the driver plans over all of them at once."""

ANY: Final = ""
"""Represents in ``Offsets`` the one segment of a read, whatever its name."""

Offsets = Mapping[str, int]
"""Offsets by segment name, or one under ``ANY``."""


class Mode(StrEnum):
    """What a row is."""

    LINES = "lines"
    EVENTS = "events"
    BYTES = "bytes"


class BadRecords(StrEnum):
    """What becomes of bytes that are no event."""

    FAIL = "fail"
    SKIP = "skip"
    COLUMN = "column"


class Split(StrEnum):
    """Whether a segment is read by several tasks."""

    AUTO = "auto"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What to read.

    Attributes:
        store: absolute path of the settings file, or of the folder that holds it.
        segments: names of the segments; empty means all that begin with ``prefix``.
        prefix: what the names begin with, when there are no ``segments``.
        mode: what a row is.
        columns: names of the columns; empty leaves it to the schema.
        bad_records: what becomes of bytes that are no event.
        split: whether a segment is read by several tasks.
        block_bytes: of a row, in the mode ``bytes``.
        range_bytes: bytes that one task reads; ``None`` lets the planning choose.
        start: records that begin below it are left out.
        stop: records that begin at or beyond it are left out.
        at_length: the length that each segment is taken to have.
    """

    store: str
    segments: tuple[str, ...] = ()
    prefix: str = ""
    mode: Mode = Mode.LINES
    columns: tuple[str, ...] = ()
    bad_records: BadRecords = BadRecords.FAIL
    split: Split = Split.AUTO
    block_bytes: int = MIB
    range_bytes: int | None = None
    start: Offsets | None = None
    stop: Offsets | None = None
    at_length: Offsets | None = None


KNOWN: Final = (
    *("store", "segment", "segments", "prefix", "mode", "columns", "badRecords", "split"),
    *("block_bytes", "range_bytes", "from", "to", "at_length"),
)
_UNITS: Final = {"": 0, "kib": 10, "mib": 20, "gib": 30}
_Choice = TypeVar("_Choice", bound=StrEnum)


def parse_options(given: Mapping[str, str], known: tuple[str, ...] = KNOWN) -> ReadOptions:
    """Check what a user wrote; names of options are compared without case, as Spark does.

    Args:
        given: the options.
        known: those that may be there.

    Raises:
        SettingsError: an option is unknown, missing or out of its range; the message names it.
    """
    options = {name.lower(): str(value) for name, value in given.items()}
    _check_names(options, known)
    segments = _segments(options)
    start, stop = _offsets(options, "from", segments), _offsets(options, "to", segments)
    for name in (start or {}).keys() & (stop or {}).keys():
        if stop is not None and start is not None and stop[name] < start[name]:
            raise SettingsError(
                f"option 'to' is {stop[name]}, which lies below 'from' {start[name]}"
            )
    mode = choice(options, "mode", Mode.LINES)
    bad_records = choice(options, "badRecords", BadRecords.FAIL)
    if mode is not Mode.EVENTS and bad_records is not BadRecords.FAIL:
        raise SettingsError(f"option 'badRecords' is for mode 'events'; in {mode} none is bad")
    if mode is not Mode.BYTES and "block_bytes" in options:
        raise SettingsError(f"option 'block_bytes' is for mode 'bytes', not {str(mode)!r}")
    return ReadOptions(
        store=str(Path(options["store"]).expanduser().absolute()),
        segments=segments,
        prefix=options.get("prefix", ""),
        mode=mode,
        columns=tuple(part.strip() for part in options.get("columns", "").split(",") if part),
        bad_records=bad_records,
        split=choice(options, "split", Split.AUTO),
        block_bytes=number(options, "block_bytes", 1, BLOCK_BYTES_MAX) or MIB,
        range_bytes=number(options, "range_bytes", 1, RANGE_BYTES_MAX),
        start=start,
        stop=stop,
        at_length=_offsets(options, "at_length", segments),
    )


def names_collection(given: Mapping[str, str]) -> bool:
    """Whether options are about a collection, and not about segments."""
    return any(name.lower() == "collection" for name in given)


def names_keyspace(given: Mapping[str, str]) -> bool:
    """Whether options are about a keyspace, and not about segments or a collection."""
    return any(name.lower() == "keyspace" for name in given)


def _check_names(options: Mapping[str, str], known: tuple[str, ...]) -> None:
    check_options(options)
    if unknown := sorted(options.keys() - {name.lower() for name in known}):
        hint = "; load() takes no path: say .option('store', path)" if "path" in unknown else ""
        raise SettingsError(
            f"unknown option: {', '.join(map(repr, unknown))}; known are {', '.join(known)}{hint}"
        )
    if not options.get("store"):
        raise SettingsError("option 'store' is missing")
    named = [name for name in ("segment", "segments", "prefix") if name in options]
    if len(named) != 1 or (named[0] != "prefix" and not options[named[0]]):
        said = f", not {' and '.join(map(repr, named))}" if len(named) > 1 else " and is missing"
        raise SettingsError(f"one of the options 'segment', 'segments', 'prefix' is needed{said}")


def _segments(options: Mapping[str, str]) -> tuple[str, ...]:
    if "segment" in options:
        return (_checked(options["segment"], "segment"),)
    if "segments" not in options:
        return ()
    names = _json(options, "segments", "a list of names in JSON")
    if not isinstance(names, list) or not names:
        raise SettingsError("option 'segments' is a list of names in JSON")
    if len(set(map(str, names))) != len(names):
        raise SettingsError("option 'segments' names a segment twice")
    if len(names) > SEGMENTS_MAX:
        raise SettingsError(f"option 'segments' has more than {SEGMENTS_MAX} names")
    return tuple(_checked(name, "segments") for name in names)


def _checked(name: object, option: str) -> str:
    try:
        return check_segment_name(name)  # type: ignore[arg-type]
    except (SiltstoneError, TypeError) as error:
        raise SettingsError(f"option {option!r}: {error}") from error


def _offsets(
    options: Mapping[str, str], name: str, segments: tuple[str, ...]
) -> dict[str, int] | None:
    """A number for the one segment, or an object of numbers by name."""
    if name not in options:
        return None
    if options[name].lstrip().startswith("{"):
        return offsets_by_name(options, name, segments)
    if len(segments) != 1:
        raise SettingsError(
            f"option {name!r} is an object in JSON, offsets by name, as there may be more segments"
        )
    value = number(options, name, 0, OFFSET_MAX)
    return None if value is None else {ANY: value}


def offsets_by_name(
    options: Mapping[str, str], name: str, segments: tuple[str, ...]
) -> dict[str, int]:
    """Offsets by segment name, written as an object in JSON.

    Raises:
        SettingsError: it is something else, or names a segment that is not read.
    """
    found = _json(options, name, "offsets by segment name, an object in JSON")
    if not isinstance(found, dict) or not all(map(_is_offset, found.values())):
        raise SettingsError(f"option {name!r} is an object in JSON, offsets by segment name")
    if segments:
        check_read(name, found, segments)
    return dict(found)


def check_read(name: str, offsets: Offsets, segments: Iterable[str]) -> None:
    """Raise ``SettingsError`` where an option tells an offset of a segment that is not read."""
    if strangers := sorted(offsets.keys() - set(segments)):
        raise SettingsError(f"option {name!r} names {strangers[0]!r}, which is not read")


def _is_offset(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= OFFSET_MAX


def _json(options: Mapping[str, str], name: str, what: str) -> Any:
    try:
        return json.loads(options[name.lower()])
    except ValueError as error:
        raise SettingsError(f"option {name!r} is {what}: {error}") from error


def choice(options: Mapping[str, str], name: str, default: _Choice) -> _Choice:
    """One of some words."""
    text = options.get(name.lower(), default).strip().lower()
    kinds = type(default)
    try:
        return kinds(text)
    except ValueError:
        words = ", ".join(kinds)
        raise SettingsError(f"option {name!r} is one of {words}, not {text!r}") from None


def number(
    options: Mapping[str, str], name: str, least: int, most: int, *, what: str = "bytes"
) -> int | None:
    """Return a whole number, with or without a unit such as ``MiB``; ``None`` when not given."""
    if name.lower() not in options:
        return None
    text = options[name.lower()].strip()
    match = re.fullmatch(r"([0-9]{1,20})\s*([kmg]ib|)", text.lower())
    if match is None:
        example = "67108864 or 64MiB" if what == "bytes" else "10000"
        raise SettingsError(f"option {name!r} is a whole number of {what} such as {example}")
    value = int(match[1]) << _UNITS[match[2]]
    if not least <= value <= most:
        raise SettingsError(
            f"option {name!r} must be between {least} and {most} {what}, not {value}"
        )
    return value


def column_names(options: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the names of the option ``columns``; ``None`` when it is not given.

    Raises:
        SettingsError: one is empty, or stands there twice.
    """
    if "columns" not in options:
        return None
    names = tuple(part.strip() for part in options["columns"].split(","))
    if not all(names):
        raise SettingsError("option 'columns' is one name or several, separated by commas")
    if len(set(names)) != len(names):
        raise SettingsError("option 'columns' names a column twice")
    return names
