"""How far a stream has read, as in Spark's checkpoint. See docs/formats/stream-offset.md.

Pure functions: the form of an offset, and how the bytes of a batch are shared among segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from siltstone.core.errors import CorruptDataError, FormatError

VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRead:
    """The bytes right before a position, by which another history of the segment is noticed.

    Attributes:
        length: how many.
        sum: their CRC32C.
    """

    length: int
    sum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPosition:
    """How far one segment was read.

    Attributes:
        segment_id: its id, which tells it from a later one of the same name.
        offset: everything that begins below it was read.
        done: the segment is sealed and was read to its end.
        first: where the query began to read it; ``None`` in a checkpoint that does not say so.
        last: the last bytes before ``offset``; ``None`` where there were none, and in a checkpoint
            that does not say so.
    """

    segment_id: int
    offset: int
    done: bool = False
    first: int | None = None
    last: LastRead | None = None


Positions = Mapping[str, StreamPosition]
"""Positions by segment name."""


Lineages = Mapping[int, str]
"""Lineages by container, of those that have segments of an offset."""


def offset_of(positions: Positions, lineages: Lineages) -> dict[str, Any]:
    """The offset that Spark keeps, the same for the same positions and lineages."""
    return {
        "version": VERSION,
        "lineages": {str(container): lineages[container] for container in sorted(lineages)},
        "segments": {name: _fields(positions[name]) for name in sorted(positions)},
    }


def _fields(position: StreamPosition) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": position.segment_id,
        "offset": position.offset,
        "done": position.done,
    }
    if position.first is not None:
        fields["first"] = position.first
    if position.last is not None:
        fields["last"] = {"length": position.last.length, "sum": position.last.sum}
    return fields


def positions_of(offset: Mapping[str, Any]) -> dict[str, StreamPosition]:
    """What ``offset_of`` made.

    Raises:
        FormatError: a newer version made it.
        CorruptDataError: it is something else.
    """
    with _checked():
        if offset["version"] > VERSION:
            raise FormatError.of_version("offset of a stream", offset["version"], VERSION)
        return {
            name: StreamPosition(
                segment_id=int(one["id"]),
                offset=int(one["offset"]),
                done=bool(one["done"]),
                first=int(one["first"]) if "first" in one else None,
                last=_last(one["last"]) if "last" in one else None,
            )
            for name, one in offset["segments"].items()
        }


def _last(fields: Mapping[str, Any]) -> LastRead:
    return LastRead(length=int(fields["length"]), sum=int(fields["sum"]))


def lineages_of(offset: Mapping[str, Any]) -> dict[int, str]:
    """The lineages that ``offset_of`` was given; none in a checkpoint that does not say them.

    Raises ``CorruptDataError`` like ``positions_of``.
    """
    with _checked():
        return {int(key): str(lineage) for key, lineage in offset.get("lineages", {}).items()}


@contextmanager
def _checked() -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise CorruptDataError(
            "the checkpoint's offset is not one of this source", where="checkpoint"
        ) from error


def share_bytes(backlogs: Mapping[str, int], budget: int | None) -> dict[str, int]:
    """Share the bytes of a batch among segments: each gets all it has, or as much as any other.

    Args:
        backlogs: bytes that each has.
        budget: bytes of the batch; ``None`` gives each all it has.

    Returns:
        Bytes for each, at least 1 where there are any.
    """
    if budget is None:
        return dict(backlogs)
    shares, left = {}, budget
    smallest_first = sorted(backlogs, key=lambda name: (backlogs[name], name))
    for index, name in enumerate(smallest_first):
        share = max(1, left // (len(smallest_first) - index))
        shares[name] = min(backlogs[name], share)
        left = max(0, left - shares[name])
    return shares
