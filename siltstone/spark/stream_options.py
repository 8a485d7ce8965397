"""The options of ``spark.readStream.format("siltstone")``: those of a read, and a stream's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from siltstone.core.errors import SettingsError
from siltstone.spark.options import KNOWN, ReadOptions, number, offsets_by_name, parse_options

BYTES_MAX: Final = 1 << 50
ROWS_MAX: Final = 1 << 40
_STREAM: Final = ("startingOffsets", "onTruncation", "maxBytesPerTrigger", "maxRowsPerTrigger")
_BATCH: Final = ("from", "to", "at_length")
STREAM_KNOWN: Final = tuple(name for name in KNOWN if name not in _BATCH) + _STREAM
ALL_KNOWN: Final = KNOWN + _STREAM


class Starting(StrEnum):
    """Where a stream without a checkpoint begins."""

    EARLIEST = "earliest"
    LATEST = "latest"


class OnTruncation(StrEnum):
    """What becomes of a stream whose unread bytes are gone."""

    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """What to stream, and how much at a time.

    Attributes:
        read: what to read.
        starting: where a stream without a checkpoint begins.
        starting_offsets: where it begins in some segments, by name.
        on_truncation: what becomes of it when unread bytes are gone.
        max_bytes: about how many bytes a batch has at most.
        max_rows: how many rows a batch has at most.
    """

    read: ReadOptions
    starting: Starting = Starting.EARLIEST
    starting_offsets: Mapping[str, int] | None = None
    on_truncation: OnTruncation = OnTruncation.FAIL
    max_bytes: int | None = None
    max_rows: int | None = None


def parse_stream_options(given: Mapping[str, str]) -> StreamOptions:
    """Check what a user wrote. Raises ``SettingsError`` like ``parse_options``."""
    options = {name.lower(): str(value) for name, value in given.items()}
    for name in _BATCH:
        if name in options:
            raise SettingsError(
                f"option {name!r} is for batches; a stream has 'startingOffsets' and a checkpoint"
            )
    read = parse_options(given, STREAM_KNOWN)
    starting, offsets = Starting.EARLIEST, None
    text = options.get("startingoffsets", starting).strip()
    if text.startswith("{"):
        offsets = offsets_by_name(options, "startingOffsets", read.segments)
    elif text.lower() in set(Starting):
        starting = Starting(text.lower())
    else:
        raise SettingsError(
            "option 'startingOffsets' is earliest, latest, or an object in JSON, offsets by "
            f"segment name, not {text!r}"
        )
    truncation = options.get("ontruncation", OnTruncation.FAIL).strip().lower()
    if truncation not in set(OnTruncation):
        raise SettingsError(f"option 'onTruncation' is fail or skip, not {truncation!r}")
    return StreamOptions(
        read=read,
        starting=starting,
        starting_offsets=offsets,
        on_truncation=OnTruncation(truncation),
        max_bytes=number(options, "maxBytesPerTrigger", 1, BYTES_MAX),
        max_rows=number(options, "maxRowsPerTrigger", 1, ROWS_MAX, what="rows"),
    )
