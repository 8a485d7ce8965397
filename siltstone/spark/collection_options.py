"""The options of a collection in Spark: checked before anything is opened."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from siltstone.collections.state.limits import SEQUENCE_MAX
from siltstone.collections.state.refusals import check_name
from siltstone.core.errors import SettingsError
from siltstone.core.records.collection_frontier import TIME_MAX
from siltstone.spark.catalog_tables import check_options
from siltstone.spark.options import choice, column_names, number
from siltstone.spark.stream_options import BYTES_MAX, ROWS_MAX

COLLECTION: Final = "collection"
READ_KNOWN: Final = ("store", COLLECTION, "asOf", "columns", "diffs")
STREAM_ONLY: Final = ("bookmark", "startingTime", "maxRowsPerTrigger", "maxBytesPerTrigger")
STREAM_KNOWN: Final = ("store", COLLECTION, "columns", *STREAM_ONLY)
WRITE_KNOWN: Final = ("store", COLLECTION, "writer", "sequence")
STREAM_WRITE_KNOWN: Final = ("store", COLLECTION, "checkpointLocation")
_OF_SEGMENTS: Final = ("segment", "segments", "prefix")


class Diffs(StrEnum):
    """Whether counts of rows are shown."""

    TRUE = "true"
    FALSE = "false"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionReadOptions:
    """What to read.

    Attributes:
        store: absolute path of the settings file, or of the folder that holds it.
        collection: name of the collection.
        as_of: the time of the rows; ``None``: the newest complete one.
        columns: names of the columns, in this order; ``None``: all.
        diffs: whether counts are shown as ``_diff``; else a row comes as often as it counts.
    """

    store: str
    collection: str
    as_of: int | None = None
    columns: tuple[str, ...] | None = None
    diffs: bool = False


class BeginsWith(StrEnum):
    """Where a stream without a checkpoint begins, unless it is at a time."""

    SNAPSHOT = "snapshot"
    """The first batch is all rows at the newest complete time."""
    LATEST = "latest"
    """Only what changes from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionStreamOptions:
    """What to stream, and how much at a time.

    Attributes:
        store: absolute path of the settings file, or of the folder that holds it.
        collection: name of the collection.
        bookmark: keeps what the query has not read.
        starting: where a stream without a checkpoint begins; a number is the first time of the
            changes that it gives.
        columns: names of the columns, in this order; ``None``: all.
        max_bytes: about how many bytes of encoded rows a batch has at most; ``None``: any number.
        max_rows: how many rows a batch has at most; ``None``: any number.
    """

    store: str
    collection: str
    bookmark: str
    starting: BeginsWith | int = BeginsWith.SNAPSHOT
    columns: tuple[str, ...] | None = None
    max_bytes: int | None = None
    max_rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionWriteOptions:
    """What to write where.

    Attributes:
        store: absolute path of the settings file, or of the folder that holds it.
        collection: name of the collection.
        overwrite: whether the rows replace those that are there; else they are added.
        writer: name by which the append is made once; ``None`` for none.
        sequence: of the append among those of the writer; ``None`` without a writer.
    """

    store: str
    collection: str
    overwrite: bool = False
    writer: str | None = None
    sequence: int | None = None


def parse_collection_options(given: Mapping[str, str]) -> CollectionReadOptions:
    """Check what a user wrote; names of options are compared without case, as Spark does.

    Raises:
        SettingsError: an option is unknown, missing or out of its range; the message names it.
    """
    options = checked_options(given, READ_KNOWN, "load")
    return CollectionReadOptions(
        store=str(Path(options["store"]).expanduser().absolute()),
        collection=options[COLLECTION],
        as_of=whole_number(options, "asOf", TIME_MAX),
        columns=column_names(options),
        diffs=choice(options, "diffs", Diffs.FALSE) is Diffs.TRUE,
    )


def asks_for_stream(given: Mapping[str, str]) -> bool:
    """Whether there is an option that only a stream of a collection has."""
    return bool({name.lower() for name in given} & {name.lower() for name in STREAM_ONLY})


def parse_collection_stream_options(given: Mapping[str, str]) -> CollectionStreamOptions:
    """Check what a user wrote. Raises as ``parse_collection_options``."""
    names = {name.lower() for name in given}
    for name in ("asOf", "diffs"):
        if name.lower() in names:
            raise SettingsError(
                f"option {name!r} is for batches; a stream has 'startingTime', and always shows "
                "_time and _diff"
            )
    options = checked_options(given, STREAM_KNOWN, "load")
    if not options.get("bookmark"):
        raise SettingsError(
            "option 'bookmark' is missing: a name of the query's own, under which the collection "
            "keeps what the query has not read"
        )
    return CollectionStreamOptions(
        store=str(Path(options["store"]).expanduser().absolute()),
        collection=options[COLLECTION],
        bookmark=_name(options, "bookmark"),
        starting=_starting(options),
        columns=column_names(options),
        max_bytes=number(options, "maxBytesPerTrigger", 1, BYTES_MAX),
        max_rows=number(options, "maxRowsPerTrigger", 1, ROWS_MAX, what="rows"),
    )


def parse_collection_write_options(
    given: Mapping[str, str], *, overwrite: bool
) -> CollectionWriteOptions:
    """Check what a user wrote. Raises as ``parse_collection_options``."""
    options = checked_options(given, WRITE_KNOWN, "save")
    if ("writer" in options) != ("sequence" in options):
        raise SettingsError("options 'writer' and 'sequence' go together, or there is none of them")
    return CollectionWriteOptions(
        store=str(Path(options["store"]).expanduser().absolute()),
        collection=options[COLLECTION],
        overwrite=overwrite,
        writer=_name(options, "writer") if "writer" in options else None,
        sequence=whole_number(options, "sequence", SEQUENCE_MAX),
    )


def parse_collection_sink_options(
    given: Mapping[str, str], *, overwrite: bool
) -> CollectionWriteOptions:
    """Check what a user wrote of a stream into a collection.

    Raises:
        SettingsError: an option is unknown, missing or out of its range, or the output mode is
            ``complete``; the message names it.
    """
    if names := {"writer", "sequence"} & {name.lower() for name in given}:
        raise SettingsError(
            f"option {min(names)!r} is for batches; the writer of a stream is the id of its query, "
            "and the sequence its batch"
        )
    options = checked_options(given, STREAM_WRITE_KNOWN, "start")
    if overwrite:
        raise SettingsError(
            "output mode 'complete' cannot be written into a collection, only 'append'; to replace "
            "all rows by each batch, write in foreachBatch with mode('overwrite')"
        )
    return CollectionWriteOptions(
        store=str(Path(options["store"]).expanduser().absolute()),
        collection=options[COLLECTION],
    )


def checked_options(given: Mapping[str, str], known: tuple[str, ...], verb: str) -> dict[str, str]:
    """Return options by their names in lower case.

    Args:
        given: the options.
        known: those that may be there.
        verb: that of Spark, which takes no path.

    Raises:
        SettingsError: an option is unknown, or ``store`` or ``collection`` is missing.
    """
    options = {name.lower(): str(value) for name, value in given.items()}
    check_options(options)
    if known is READ_KNOWN and asks_for_stream(given):
        raise SettingsError(f"options {', '.join(STREAM_ONLY)} are for streams")
    if both := [name for name in _OF_SEGMENTS if name in options]:
        raise SettingsError(f"options {COLLECTION!r} and {both[0]!r} exclude each other")
    if unknown := sorted(options.keys() - {name.lower() for name in known}):
        hint = f"; {verb}() takes no path: say .option('store', path)" if "path" in unknown else ""
        raise SettingsError(
            f"unknown option: {', '.join(map(repr, unknown))}; "
            f"known for a collection are {', '.join(known)}{hint}"
        )
    for name in ("store", COLLECTION):
        if not options.get(name):
            raise SettingsError(f"option {name!r} is missing")
    return options


def whole_number(options: Mapping[str, str], name: str, most: int) -> int | None:
    """Return a number from 0 to ``most``; ``None`` when it is not given.

    Raises:
        SettingsError: it is something else; the message names the option.
    """
    if name.lower() not in options:
        return None
    text = options[name.lower()].strip()
    if not re.fullmatch("[0-9]{1,20}", text) or int(text) > most:
        raise SettingsError(f"option {name!r} is a whole number from 0 to {most}, not {text!r}")
    return int(text)


def _name(options: Mapping[str, str], option: str) -> str:
    try:
        return check_name(options[option])
    except ValueError as error:
        raise SettingsError(f"option {option!r}: {error}") from error


def _starting(options: Mapping[str, str]) -> BeginsWith | int:
    text = options.get("startingtime", BeginsWith.SNAPSHOT).strip().lower()
    if text in set(BeginsWith):
        return BeginsWith(text)
    if re.fullmatch("[0-9]{1,20}", text) and int(text) <= TIME_MAX:
        return int(text)
    raise SettingsError(
        f"option 'startingTime' is snapshot, latest, or a whole number from 0 to {TIME_MAX}, not "
        f"{text!r}"
    )
