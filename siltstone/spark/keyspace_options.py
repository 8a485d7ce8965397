"""The options of a keyspace in Spark: checked before anything is opened."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from siltstone.core.constants import MIB
from siltstone.core.errors import SettingsError
from siltstone.objects.changes import STANDARD, name_bytes
from siltstone.objects.errors import KeyspaceNameError, ObjectLimitError, UnsupportedError
from siltstone.objects.records.limits import FIELD_BYTES_MAX
from siltstone.objects.space_names import space_names
from siltstone.spark.catalog_tables import check_options
from siltstone.spark.options import RANGE_BYTES_MAX, choice, column_names, number
from siltstone.store.settings.units import parse_time

KEYSPACE: Final = "keyspace"
PACK_BYTES: Final = 64 * MIB
"""Records that one task reads, unless told otherwise: some seconds of work."""

TTL_S: Final = 3600.0
"""How long values stay that a planned read needs, unless told otherwise."""

TTL_S_MAX: Final = 30 * 24 * 3600.0
"""A pin holds back what could be deleted."""

_SHARED: Final = ("store", KEYSPACE, "fold", "columns", "tag", "bucket", "start", "end")
_OTHERS: Final = ("collection", "segment", "segments", "prefix")
T = TypeVar("T")


class Fold(StrEnum):
    """What a row is."""

    HEADS = "heads"
    OBJECTS = "objects"
    INDEX = "index"


KNOWN: Final[Mapping[Fold, tuple[str, ...]]] = {
    Fold.HEADS: (*_SHARED, "since", "until"),
    Fold.OBJECTS: (*_SHARED, "since", "until", "range_bytes", "ttl"),
    Fold.INDEX: (*_SHARED, "field", "pattern"),
}
"""Options by fold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyspaceReadOptions:
    """What to read.

    Attributes:
        store: absolute path of the settings file, or of the folder that holds it.
        keyspace: its name.
        fold: what a row is.
        columns: names of the columns, in this order; ``None``: all.
        tag: of the objects.
        bucket: of the objects; ``None``: all buckets. An index has one.
        start: the first key of the bucket, or the first term; ``None``: from the beginning.
        end: the key, or the term, after the last; ``None``: to the end.
        since: changed at this time or later, seconds since 1970; ``None``: any time.
        until: changed before this time; ``None``: any time.
        field: name of the index; ``None`` for other folds.
        pattern: what a part of each term matches; ``None``: any.
        range_bytes: about how many bytes of records a task reads.
        ttl_s: seconds for which the values are kept that the read needs.
    """

    store: str
    keyspace: str
    fold: Fold = Fold.HEADS
    columns: tuple[str, ...] | None = None
    tag: str = STANDARD
    bucket: str | None = None
    start: str | None = None
    end: str | None = None
    since: float | None = None
    until: float | None = None
    field: str | None = None
    pattern: str | None = None
    range_bytes: int = PACK_BYTES
    ttl_s: float = TTL_S


def parse_keyspace_options(given: Mapping[str, str]) -> KeyspaceReadOptions:
    """Check what a user wrote; names of options are compared without case, as Spark does.

    Raises:
        SettingsError: an option is unknown, missing or out of its range; the message names it.
    """
    options = {name.lower(): str(value) for name, value in given.items()}
    check_options(options)
    if both := [name for name in _OTHERS if name in options]:
        raise SettingsError(f"options {KEYSPACE!r} and {both[0]!r} exclude each other")
    for name in ("store", KEYSPACE):
        if not options.get(name):
            raise SettingsError(f"option {name!r} is missing")
    fold = choice(options, "fold", Fold.HEADS)
    _check_known(options, fold)
    bucket = _name(options, "bucket", least=1)
    field = _name(options, "field", least=1, most=FIELD_BYTES_MAX)
    _check_named(options, fold)
    return KeyspaceReadOptions(
        store=str(Path(options["store"]).expanduser().absolute()),
        keyspace=_checked(options, KEYSPACE, lambda name: space_names(name).name) or "",
        fold=fold,
        columns=column_names(options),
        tag=options.get("tag", STANDARD),
        bucket=bucket,
        start=_name(options, "start"),
        end=_name(options, "end"),
        since=_time(options, "since"),
        until=_time(options, "until"),
        field=field,
        pattern=_pattern(options),
        range_bytes=number(options, "range_bytes", 1, RANGE_BYTES_MAX) or PACK_BYTES,
        ttl_s=_ttl(options),
    )


def refuse_keyspace(what: str) -> UnsupportedError:
    """The error for what Spark cannot do with a keyspace.

    Args:
        what: is asked for.
    """
    return UnsupportedError(
        f"a keyspace has no {what} in Spark, only batch reads: change it by siltstone.objects in "
        "the process that owns the store"
    )


def _check_known(options: Mapping[str, str], fold: Fold) -> None:
    known = KNOWN[fold]
    unknown = sorted(options.keys() - {name.lower() for name in known})
    if not unknown:
        return
    others = [str(each) for each, names in KNOWN.items() if unknown[0] in names]
    if others:
        raise SettingsError(
            f"option {unknown[0]!r} is for fold {' or '.join(map(repr, others))}, not {str(fold)!r}"
        )
    hint = "; load() takes no path: say .option('store', path)" if "path" in unknown else ""
    raise SettingsError(
        f"unknown option: {', '.join(map(repr, unknown))}; "
        f"known for the {fold} of a keyspace are {', '.join(known)}{hint}"
    )


def _check_named(options: Mapping[str, str], fold: Fold) -> None:
    """Refuse a range of what is in nothing that is named."""
    if fold is Fold.INDEX:
        for name in ("bucket", "field"):
            if name not in options:
                raise SettingsError(f"option {name!r} is missing: an index has one")
    elif "bucket" not in options:
        for name in ("start", "end"):
            if name in options:
                raise SettingsError(f"option {name!r} is a key of a bucket, so it needs 'bucket'")


def _checked(options: Mapping[str, str], name: str, check: Callable[[str], T]) -> T | None:
    """What a check makes of an option; ``None`` where it is not given."""
    if name not in options:
        return None
    try:
        return check(options[name])
    except (KeyspaceNameError, ObjectLimitError, ValueError, re.error) as error:
        raise SettingsError(f"option {name!r}: {error}") from error


def _name(
    options: Mapping[str, str], name: str, *, least: int = 0, most: int | None = None
) -> str | None:
    def check(text: str) -> str:
        if most is None:
            name_bytes(text, what="name", least=least)
        else:
            name_bytes(text, what="name", least=least, most=most)
        return text

    return _checked(options, name, check)


def _pattern(options: Mapping[str, str]) -> str | None:
    def check(text: str) -> str:
        re.compile(text)
        return text

    return _checked(options, "pattern", check)


def _time(options: Mapping[str, str], name: str) -> float | None:
    text = options.get(name, "0").strip()
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,6})?", text):
        raise SettingsError(
            f"option {name!r} is seconds since 1970, such as 1767312000, not {text!r}"
        )
    return float(text) if name in options else None


def _ttl(options: Mapping[str, str]) -> float:
    ttl_s = _checked(options, "ttl", parse_time)
    if ttl_s is None:
        return TTL_S
    if not 0 < ttl_s <= TTL_S_MAX:
        raise SettingsError(f"option 'ttl' is above 0 and at most 30d, not {options['ttl']!r}")
    return ttl_s
