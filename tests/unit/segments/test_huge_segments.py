"""Segments of 10,000 chunks: how many transactions and reads of rows their end takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.records.extent import Extent
from siltstone.segments.concat_staging import Joining
from tests.support.oracles.memory_layout_store import MemoryLayoutStore
from tests.support.segments.segment_world import World, data, small

WRITE_ONCE = Profile(append=False, concat=False, seal=False)


class CountingStore(MemoryLayoutStore):
    """Counts the extents that are read."""

    looked_at = 0

    def extents(self, segment_id: int, start: int, end: int, limit: int) -> list[Extent]:
        found = super().extents(segment_id, start, end, limit)
        self.looked_at += len(found)
        return found


@dataclass
class Cost:
    """What an operation cost.

    Attributes:
        transactions: how many.
        rows_max: extents and chunks that the largest one removes or changes.
        looked_at: extents that were read for all of them.
    """

    transactions: int
    rows_max: int
    looked_at: int


async def cost_of(chunks: int, end: Callable[[World], Awaitable[object]]) -> Cost:
    """The cost of ``end`` for segment 1 of ``chunks`` chunks."""
    store = CountingStore()
    world = World(WRITE_ONCE, settings=small(1), layouts=store)
    world.layouts.add(1)
    await world.segments.write(1, 0, [data(chunks)])
    store.commits.clear()
    world.calls.clear()
    store.looked_at = 0
    await end(world)
    assert not world.calls, "no request, so none of its bytes is read or written"
    rows = [
        len(c.extents_removed) + len(c.extents_put) + len(c.chunks_put) + len(c.chunks_dropped)
        for c in store.commits
    ]
    return Cost(len(rows), max(rows), store.looked_at)


async def truncate(world: World) -> None:
    length = world.layouts.layout(1).storage_length
    world.layouts.change(1, start_offset=length)
    while not await world.segments.trim(1, length):
        pass
    assert world.layouts.rows.chunks == {}
    assert len(world.layouts.garbage) == length


async def delete(world: World) -> None:
    length = world.layouts.layout(1).storage_length
    world.layouts.change(1, deleted=True)
    while not await world.segments.remove(1):
        pass
    assert world.layouts.rows.chunks == {}
    assert len(world.layouts.garbage) == length


async def join(world: World) -> None:
    length = world.layouts.layout(1).storage_length
    world.layouts.add(2)
    world.layouts.change(1, sealed_length=length)
    joining = Joining(target_id=2, source_id=1, offset=0, start=0)
    while not await world.segments.place(joining):
        pass
    await world.segments.show(joining)
    assert world.layouts.layout(2).storage_length == length


@pytest.mark.slow
@pytest.mark.parametrize(("end", "per_slice"), [(truncate, 500), (delete, 500), (join, 400)])
async def test_the_cost_is_bounded_by_transaction_and_linear_in_all(
    end: Callable[[World], Awaitable[object]], per_slice: int
) -> None:
    for chunks in (1_000, 10_000):
        cost = await cost_of(chunks, end)
        assert cost.rows_max <= ROWS_PER_SLICE
        assert cost.transactions <= -(-chunks // per_slice) + 1
        assert cost.looked_at <= 4 * chunks, "each is read a few times"
