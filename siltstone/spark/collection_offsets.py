"""How far a stream of a collection has read, as in Spark's checkpoint.

See docs/formats/stream-offset.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.core.records.collection_frontier import is_frontier

VERSION: Final = 1

SNAPSHOT: Final = "snapshot"
"""The first batch is all rows at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionOffset:
    """A frontier of a collection.

    Attributes:
        collection_id: 16 bytes.
        time: all that changed before it was read.
        first: the frontier at which the query began; ``None`` means with all rows at a time, and
            that ``time`` is 0 as long as they were not read.
    """

    collection_id: bytes
    time: int
    first: int | None

    @property
    def is_first(self) -> bool:
        """Whether the query has read nothing so far."""
        return self.time == (0 if self.first is None else self.first)


def fields_of(offset: CollectionOffset) -> dict[str, Any]:
    """What Spark keeps, the same for the same offset."""
    return {
        "version": VERSION,
        "collection": offset.collection_id.hex(),
        "time": offset.time,
        "first": SNAPSHOT if offset.first is None else offset.first,
    }


def offset_of(fields: Mapping[str, Any]) -> CollectionOffset:
    """What ``fields_of`` was given.

    Raises:
        FormatError: a newer version made the fields.
        CorruptDataError: they are something else, such as the offset of a stream of segments.
    """
    try:
        if fields["version"] > VERSION:
            raise FormatError.of_version("offset of a stream", fields["version"], VERSION)
        first = fields["first"]
        offset = CollectionOffset(
            collection_id=bytes.fromhex(fields["collection"]),
            time=int(fields["time"]),
            first=None if first == SNAPSHOT else int(first),
        )
        if not is_frontier(offset.time):
            raise ValueError("no frontier")
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise CorruptDataError(
            "the checkpoint's offset is not one of a stream of a collection", where="checkpoint"
        ) from error
    return offset
