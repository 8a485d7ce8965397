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
from siltstone.spark.options import choice

COLLECTION: Final = "collection"
READ_KNOWN: Final = ("store", COLLECTION, "asOf", "columns", "diffs")
WRITE_KNOWN: Final = ("store", COLLECTION, "writer", "sequence")
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
        columns=_columns(options),
        diffs=choice(options, "diffs", Diffs.FALSE) is Diffs.TRUE,
    )


def parse_collection_write_options(
    given: Mapping[str, str], *, overwrite: bool
) -> CollectionWriteOptions:
    """Check what a user wrote. Raises as ``parse_collection_options``."""
    options = checked_options(given, WRITE_KNOWN, "save")
    if ("writer" in options) != ("sequence" in options):
        raise SettingsError("options 'writer' and 'sequence' go together, or there is none of them")
    writer = options.get("writer")
    if writer is not None:
        try:
            check_name(writer)
        except ValueError as error:
            raise SettingsError(f"option 'writer': {error}") from error
    return CollectionWriteOptions(
        store=str(Path(options["store"]).expanduser().absolute()),
        collection=options[COLLECTION],
        overwrite=overwrite,
        writer=writer,
        sequence=whole_number(options, "sequence", SEQUENCE_MAX),
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


def _columns(options: Mapping[str, str]) -> tuple[str, ...] | None:
    if "columns" not in options:
        return None
    names = tuple(part.strip() for part in options["columns"].split(","))
    if not all(names):
        raise SettingsError("option 'columns' is one name or several, separated by commas")
    if len(set(names)) != len(names):
        raise SettingsError("option 'columns' names a column twice")
    return names
