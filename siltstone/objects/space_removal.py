"""How a keyspace ends: its rows go in one commit, and then its segments, one after the other.

Without its first row there is no keyspace of the name. What a removal leaves that was interrupted
is removed by the next one, or before a keyspace of the name is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from siltstone.container.models.segments import RemoveRange
from siltstone.core.errors import SegmentNotFoundError, TableNotFoundError
from siltstone.objects.errors import KeyspaceNotFoundError

if TYPE_CHECKING:
    from siltstone.objects.space_names import SpaceNames
    from siltstone.store.async_store import AsyncStore


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedKeyspace:
    """What was removed of a keyspace.

    Attributes:
        name: of the keyspace.
        segments: how many segments it had.
        length: their bytes, footers included.
    """

    name: str
    segments: int
    length: int


async def remove_space(store: AsyncStore, names: SpaceNames) -> RemovedKeyspace:
    """Remove all of a keyspace, or what an earlier removal left. Its table stays, and is empty.

    Raises:
        KeyspaceNotFoundError: there never was one of this name.
    """
    try:
        return await clear_space(store, names)
    except TableNotFoundError:
        raise KeyspaceNotFoundError("no such keyspace", keyspace=names.name) from None


async def clear_space(store: AsyncStore, names: SpaceNames) -> RemovedKeyspace:
    """Remove every row and every segment that is there. Raises ``TableNotFoundError``."""
    async for _ in store.table(names.ledger).scan():
        await store.commit([RemoveRange(names.ledger)])
        break
    count = size = 0
    async for info in store.list(names.prefix):
        try:
            await store.segment(info.name).delete()
        except SegmentNotFoundError:
            continue
        count += 1
        size += info.length - info.start_offset
    return RemovedKeyspace(name=names.name, segments=count, length=size)
