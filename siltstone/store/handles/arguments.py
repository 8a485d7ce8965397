"""Checks of arguments before any I/O, and the choice of the container that a request belongs to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from siltstone.container.models.segments import (
    Append,
    AttributeIs,
    ChangeKeys,
    Condition,
    LengthIs,
    Operation,
    Put,
    Remove,
    RemoveRange,
    SetAttribute,
    VersionIs,
)
from siltstone.core.bytes_like import as_bytes
from siltstone.core.constants import READ_BYTES_MAX, container_of
from siltstone.core.errors import StoreError
from siltstone.core.records.table_record import KEY_BYTES_MAX
from siltstone.core.whole_number import whole_number
from siltstone.store.local_times import seconds_of

if TYPE_CHECKING:
    from typing import SupportsIndex

    from siltstone.core.bytes_like import BytesLike

OFFSET_MAX: Final = 2**64 - 1


class SeveralContainersError(StoreError, ValueError):
    """One request names things of several containers, and only one container is atomic.

    Names that hold the same ``{tag}`` share a container.

    Attributes:
        names: what was named, with the index of its container.
    """

    def __init__(self, names: dict[str, int]) -> None:
        shown = ", ".join(f"{name!r} in {index}" for name, index in sorted(names.items())[:10])
        super().__init__(f"one request names several containers: {shown}")
        self.names = names


def check_offset(offset: SupportsIndex, *, what: str = "offset") -> int:
    """Return ``offset`` if it is a whole number of at least 0 that fits 64 bits."""
    number = offset if type(offset) is int else whole_number(offset, what=what)
    if not 0 <= number <= OFFSET_MAX:
        raise ValueError(f"{what} must be between 0 and {OFFSET_MAX}, not {number}")
    return number


def check_range(offset: SupportsIndex, length: SupportsIndex) -> tuple[int, int]:
    """Return both; refuse what no read may ask for.

    That is a negative offset, a negative length, or a length over 1 GiB.
    """
    first = check_offset(offset)
    count = check_offset(length, what="length")
    if count > READ_BYTES_MAX:
        raise ValueError(f"length must be at most {READ_BYTES_MAX} bytes, not {count}")
    return first, count


def check_time_ms(time: object) -> int:
    """Return a time as whole milliseconds since 1970, rounded down."""
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ValueError("time has no time zone")
        time = seconds_of(time)
    time = check_seconds(time, "time is a datetime or seconds since 1970")
    if not 0 <= time * 1000 <= OFFSET_MAX:
        raise ValueError(f"time must be seconds since 1970, not {time}")
    return math.floor(time * 1000)


def check_seconds(value: object, expected: str) -> float:
    """Return a number of seconds of any type; ``expected`` says what it should be."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    try:
        return whole_number(value, what="it")  # type: ignore[arg-type]
    except TypeError as error:
        raise TypeError(f"{expected}, not {type(value).__name__}") from error


def check_stream(stream: object) -> None:
    """Refuse what is no file: a path, or the bytes themselves."""
    if not callable(getattr(stream, "read", None)):
        raise TypeError(
            f"a stream is a file that was opened to be read, not {type(stream).__name__}"
        )


def check_key(key: BytesLike) -> bytes:
    """Return ``key`` as bytes if it can be a key of a table."""
    raw = as_bytes(key, what="key")
    if len(raw) > KEY_BYTES_MAX:
        raise ValueError(f"key must be at most {KEY_BYTES_MAX} bytes, not {len(raw)}")
    return raw


def check_version(version: SupportsIndex | None) -> int | None:
    """Return the version that a key must have; ``None`` means that it must be absent."""
    return None if version is None else whole_number(version, what="version")


def check_changes(
    changes: Mapping[bytes, BytesLike | None],
) -> list[tuple[bytes, bytes | None]]:
    """Return keys and values of an update as bytes, whatever they were before."""
    return [
        (
            key if type(key) is bytes and len(key) <= KEY_BYTES_MAX else check_key(key),
            value if value is None or type(value) is bytes else as_bytes(value, what="value"),
        )
        for key, value in changes.items()
    ]


def check_expected(
    expected: Mapping[bytes, SupportsIndex | None],
) -> list[tuple[bytes, int | None]]:
    """Return what keys must have, the keys as bytes and the versions as integers."""
    return [
        (
            key if type(key) is bytes and len(key) <= KEY_BYTES_MAX else check_key(key),
            None if version is None else check_version(version),
        )
        for key, version in expected.items()
    ]


def plain_operation(part: Operation) -> Operation:
    """Return an operation whose keys and values are bytes, whatever they were before."""
    if type(part) is Put:  # a commit may have a thousand of them
        key, value = check_key(part.key), as_bytes(part.value, what="value")
        is_plain = key is part.key and value is part.value
        return part if is_plain else Put(part.table, key, value)
    match part:
        case Remove(table, key):
            return Remove(table, check_key(key))
        case RemoveRange(table, start, end):
            return RemoveRange(table, check_key(start), None if end is None else check_key(end))
        case _:
            return part


def plain_condition(part: Condition) -> Condition:
    """Return a condition whose key is bytes and whose number an int, whatever they were before."""
    match part:
        case VersionIs(table, key, version):
            return VersionIs(table, check_key(key), check_version(version))
        case LengthIs(segment, length):
            return LengthIs(segment, whole_number(length, what="length"))
        case _:
            return part


def name_of(part: Operation | Condition) -> str:
    """Return the segment or table that an operation or a condition is about."""
    if type(part) is Put:  # a commit may have a thousand of them
        return part.table
    match part:
        case Append(segment=name) | LengthIs(segment=name):
            return name
        case SetAttribute(segment=name) | AttributeIs(segment=name):
            return name
        case Put(table=name) | Remove(table=name) | ChangeKeys(table=name):
            return name
        case RemoveRange(table=name) | VersionIs(table=name):
            return name
        case _:
            raise TypeError(f"not an operation or condition: {type(part).__name__}")


def common_container(names: Iterable[str], count: int) -> int:
    """Return the index of the one container of all ``names``.

    Raises:
        SeveralContainersError: there is more than one.
        ValueError: no name at all.
    """
    found = {name: container_of(name, count) for name in dict.fromkeys(names)}
    if not found:
        raise ValueError("a commit needs at least one operation or condition")
    if len(set(found.values())) > 1:
        raise SeveralContainersError(found)
    return next(iter(found.values()))
