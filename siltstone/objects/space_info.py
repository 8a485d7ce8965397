"""What a keyspace holds at one moment, counted: objects, value segments, and what is of no use."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from siltstone.core.errors import CorruptDataError, SegmentNotFoundError
from siltstone.objects.records.head import decode_head
from siltstone.objects.records.keys import (
    HEAD,
    STATE,
    TASK,
    LargeStatus,
    after_prefix,
    decode_large_key,
    large_prefix,
    number_of_task,
)
from siltstone.objects.records.space_rows import (
    ManifestRow,
    SpaceState,
    ValueStatus,
    decode_state,
)
from siltstone.store.handles.async_table import value_pages

if TYPE_CHECKING:
    from siltstone.objects.moment import Moment
    from siltstone.objects.space_parts import SpaceParts
    from siltstone.store.handles.async_table import AsyncTableSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSegmentInfo:
    """A value segment, and how much of it is needed.

    Attributes:
        segment: its name.
        status: ``active``, ``rolling`` (it takes its footer) or ``sealed``.
        first_sqn: of its first record.
        last_sqn: of its last record; ``first_sqn - 1`` when it has none.
        records: how many it has.
        length: bytes of its records.
        live_bytes: those of them that objects have, and what value compaction keeps besides.
    """

    segment: str
    status: str
    first_sqn: int
    last_sqn: int
    records: int
    length: int
    live_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyspaceInfo:
    """What a keyspace holds.

    Attributes:
        name: of the keyspace.
        tags: by tag what value compaction keeps of changes that were replaced.
        next_sqn: number of the next change.
        objects: how many there are.
        expired: how many have expired and wait to be removed from the ledger.
        index_entries: terms under which objects are found, expired ones left out.
        value_bytes: bytes of the values of the objects, large ones included.
        large: how many of them are large values, in segments of their own.
        large_bytes: bytes of these.
        segments: the value segments, in the order of their SQNs.
        waiting: segments that wait to be deleted: value segments of which compaction wrote what was
            needed, and large values that no object has.
        waiting_bytes: bytes of these.
    """

    name: str
    tags: Mapping[str, str]
    next_sqn: int
    objects: int
    expired: int
    index_entries: int
    value_bytes: int
    large: int
    large_bytes: int
    segments: tuple[ValueSegmentInfo, ...]
    waiting: int
    waiting_bytes: int

    @property
    def length(self) -> int:
        """Bytes of all records of the value segments."""
        return sum(each.length for each in self.segments)

    @property
    def live_bytes(self) -> int:
        """Those of them that are needed."""
        return sum(each.live_bytes for each in self.segments)

    @property
    def waste_bytes(self) -> int:
        """Those of them that are not: what value compactions can free."""
        return self.length - self.live_bytes


async def look_at(moment: Moment) -> KeyspaceInfo:
    """Count what a keyspace holds. One pass over its heads; no value is read.

    Raises:
        CorruptDataError: rows are damaged.
        SnapshotExpiredError: the moment is over.
    """
    parts, ledger, now_s = moment.parts, moment.ledger, moment.now_s
    state = await _state(parts, ledger)
    rows = (await moment.manifest()).rows
    firsts = [row.first_sqn for row in rows]
    live = [0] * len(rows)
    objects = expired = entries = size = large = large_bytes = 0
    async for page in value_pages(ledger, HEAD, after_prefix(HEAD)):
        for row_key, value in page:
            head = decode_head(value, where=row_key.hex())
            position = bisect_right(firsts, head.sqn) - 1
            if position >= 0:
                live[position] += head.length
            if not head.is_visible(now_s):
                expired += 1
                continue
            objects += 1
            entries += len(head.entries)
            size += head.size
            if head.large is not None:
                large += 1
                large_bytes += head.size
        await asyncio.sleep(0)
    waiting, waiting_bytes = await _waiting(parts, ledger)
    return KeyspaceInfo(
        name=parts.names.name,
        tags={tag: each.name.lower() for tag, each in parts.space.tags.items()},
        next_sqn=state.next_sqn,
        objects=objects,
        expired=expired,
        index_entries=entries,
        value_bytes=size,
        large=large,
        large_bytes=large_bytes,
        segments=tuple(
            _segment(parts, row, state, needed) for row, needed in zip(rows, live, strict=True)
        ),
        waiting=waiting,
        waiting_bytes=waiting_bytes,
    )


async def _state(parts: SpaceParts, ledger: AsyncTableSnapshot) -> SpaceState:
    found = await ledger.get(STATE)
    if found is None:
        raise CorruptDataError("keyspace has no state", where=parts.names.name)
    return decode_state(found.value, where=parts.names.name)


def _segment(parts: SpaceParts, row: ManifestRow, state: SpaceState, live: int) -> ValueSegmentInfo:
    is_active = row.status is ValueStatus.ACTIVE
    length = state.length if is_active else row.length
    return ValueSegmentInfo(
        segment=parts.names.value_segment(row.number),
        status=row.status.name.lower(),
        first_sqn=row.first_sqn,
        last_sqn=state.next_sqn - 1 if is_active else row.last_sqn,
        records=state.records if is_active else row.records,
        length=length,
        live_bytes=min(length, live + row.kept),
    )


async def _waiting(parts: SpaceParts, ledger: AsyncTableSnapshot) -> tuple[int, int]:
    """How many segments wait to be deleted, and their bytes."""
    count = size = 0
    names = [
        parts.names.value_segment(number_of_task(row_key))
        async for row_key, _ in ledger.scan(TASK, after_prefix(TASK))
    ]
    dead = large_prefix(LargeStatus.DEAD)
    async for row_key, _ in ledger.scan(dead, after_prefix(dead)):
        names.append(parts.names.large_segment(decode_large_key(row_key)[1]))
    for segment in names:
        try:
            size += (await parts.store.segment(segment).info()).length
        except SegmentNotFoundError:
            continue  # it was deleted, and its task goes with the next round
        count += 1
    return count, size
