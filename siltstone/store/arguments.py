"""Checks of arguments before any I/O, and the choice of the container that a request belongs to."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from siltstone.container.views import (
    Append,
    AttributeIs,
    Condition,
    LengthIs,
    Operation,
    Put,
    Remove,
    RemoveRange,
    SetAttribute,
    VersionIs,
)
from siltstone.core.errors import StoreError
from siltstone.core.records.table_record import KEY_BYTES_MAX
from siltstone.core.words import READ_BYTES_MAX, Buffer, container_of
from siltstone.store.local_times import seconds_of

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


def check_offset(offset: object, *, what: str = "offset") -> int:
    """Return ``offset`` if it is a whole number of at least 0 that fits 64 bits."""
    if not isinstance(offset, int) or isinstance(offset, bool):
        raise TypeError(f"{what} is an int, not {type(offset).__name__}")
    if not 0 <= offset <= OFFSET_MAX:
        raise ValueError(f"{what} must be between 0 and {OFFSET_MAX}, not {offset}")
    return offset


def check_range(offset: object, length: object) -> None:
    """Refuse what no read may ask for: a negative offset, a negative length, or one over 1 GiB."""
    check_offset(offset)
    if check_offset(length, what="length") > READ_BYTES_MAX:
        raise ValueError(f"length must be at most {READ_BYTES_MAX} bytes, not {length}")


def check_time_ms(time: object) -> int:
    """Return a time as whole milliseconds since 1970, rounded down."""
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ValueError("time has no time zone")
        time = seconds_of(time)
    if not isinstance(time, int | float) or isinstance(time, bool):
        raise TypeError(f"time is a datetime or seconds since 1970, not {type(time).__name__}")
    if not 0 <= time * 1000 <= OFFSET_MAX:
        raise ValueError(f"time must be seconds since 1970, not {time}")
    return math.floor(time * 1000)


def check_buffer(data: object) -> Buffer:
    """Return ``data`` if it is bytes-like as appends take it."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"data is bytes, bytearray or memoryview, not {type(data).__name__}")
    return data


def check_stream(stream: object) -> None:
    """Refuse what is no file: a path, or the bytes themselves."""
    if not callable(getattr(stream, "read", None)):
        raise TypeError(
            f"a stream is a file that was opened to be read, not {type(stream).__name__}"
        )


def check_key(key: object) -> bytes:
    """Return ``key`` as bytes if it can be a key of a table."""
    raw = bytes(check_buffer(key))
    if len(raw) > KEY_BYTES_MAX:
        raise ValueError(f"key must be at most {KEY_BYTES_MAX} bytes, not {len(raw)}")
    return raw


def name_of(part: Operation | Condition) -> str:
    """Return the segment or table that an operation or a condition is about."""
    match part:
        case Append(segment=name) | LengthIs(segment=name):
            return name
        case SetAttribute(segment=name) | AttributeIs(segment=name):
            return name
        case Put(table=name) | Remove(table=name) | RemoveRange(table=name) | VersionIs(table=name):
            return name
        case _:
            raise TypeError(f"not an operation or condition: {type(part).__name__}")


def common_container(names: Iterable[str], count: int) -> int:
    """Return the index of the one container of all ``names``.

    Raises:
        SeveralContainersError: there is more than one.
        ValueError: no name at all.
    """
    found = {name: container_of(name, count) for name in names}
    if not found:
        raise ValueError("a commit needs at least one operation or condition")
    if len(set(found.values())) > 1:
        raise SeveralContainersError(found)
    return next(iter(found.values()))
