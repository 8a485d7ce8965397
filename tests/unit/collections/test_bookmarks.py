"""Bookmarks keep history until they are moved, and one process at a time moves each."""

from __future__ import annotations

import pytest

from siltstone.core.errors import (
    BookmarkFencedError,
    CollectionLimitError,
    SinceError,
    SinceHeldError,
)
from tests.support.collections.collections_world import CollectionsWorld, rows, shown

pytestmark = pytest.mark.virtual_time

DAY_S = 24 * 3_600.0


async def test_history_stays_from_a_bookmark_on_until_it_is_moved() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create(history=1)
        gusts = await opener.collection()
        await gusts.append(rows(("a", 0)))
        bill = await gusts.bookmark("billing")
        assert bill.since == 0
        for number in range(1, 5):
            await gusts.append(rows(("a", number)))
        opener.die()
        await world.sleep(DAY_S)
        late = await world.open().collection()
        await late.append(rows(("a", 5)))
        assert (await late.info()).since == 0, "a bookmark is not leased"
        bill = await late.bookmark("billing")
        await bill.advance(3)
        await bill.advance(3)
        assert bill.since == 3
        await late.append(rows(("a", 6)))
        assert (await late.info()).since == 3
        assert await shown(late, 3) == [("a", number) for number in range(4)]
        await bill.remove()
        await bill.remove()
        await late.append(rows(("a", 7)))
        assert (await late.info()).since == 7


async def test_who_takes_a_bookmark_over_fences_the_other() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create()
        gusts = await opener.collection()
        for number in range(4):
            await gusts.append(rows(("a", number)))
        first = await gusts.bookmark("billing", since=1)
        second = await (await world.open().collection()).bookmark("billing")
        assert (second.name, second.since) == ("billing", 1)
        with pytest.raises(BookmarkFencedError) as told:
            await first.advance(2)
        assert told.value.actual == second.token
        with pytest.raises(BookmarkFencedError):
            await first.remove()
        await second.advance(2)
        assert [(row.name, row.since) for row in (await gusts.info()).bookmarks] == [("billing", 2)]
        await second.remove()
        with pytest.raises(BookmarkFencedError) as told:
            await second.advance(3)
        assert told.value.actual is None


async def test_a_bookmark_never_moves_back_or_below_the_since() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        for number in range(6):
            await gusts.append(rows(("a", number)))
        await gusts.advance_since(2)
        with pytest.raises(SinceError):
            await gusts.bookmark("billing", since=1)
        bill = await gusts.bookmark("billing", since=3)
        with pytest.raises(SinceError):
            await bill.advance(2)
        with pytest.raises(SinceError):
            await gusts.bookmark("billing", since=2)
        await bill.advance(4)  # it still has the token
        assert bill.since == 4


async def test_the_since_moves_as_far_as_bookmarks_and_readers_let_it() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        for number in range(9):
            await gusts.append(rows(("a", number)))
        bill = await gusts.bookmark("billing", since=4)
        snapshot = await gusts.snapshot(2, lease=True)
        with pytest.raises(SinceHeldError) as held:
            await gusts.advance_since(7)
        assert (held.value.to, held.value.limit) == (7, 2)
        assert "reader" in held.value.holder
        await snapshot.close()
        with pytest.raises(SinceHeldError) as held:
            await gusts.advance_since(7)
        assert (held.value.limit, held.value.holder) == (4, "bookmark billing")
        assert await gusts.advance_since(3) == 3
        assert await gusts.advance_since(1) == 3
        await bill.advance(8)
        assert await gusts.advance_since(8) == 8
        await bill.remove()
        with pytest.raises(SinceHeldError) as held:
            await gusts.advance_since(9)
        assert held.value.holder == "the upper"


async def test_readers_that_come_and_go_let_the_since_move() -> None:
    """At any time one of them is there, and each holds only what it reads."""
    async with CollectionsWorld() as world:
        opener = await world.create(history=3)
        gusts = await opener.collection()
        await gusts.append(rows(("a", 0)))
        before = await gusts.snapshot(lease=True)
        for number in range(1, 40):
            await gusts.append(rows(("a", number)))
            after = await (await world.open().collection()).snapshot(lease=True)
            await before.close()
            before = after
            info = await gusts.info()
            assert info.since == max(0, number - 2), "the one that is there reads a later time"
            assert len(info.readers) == 1


async def test_history_is_as_long_as_the_collection_says() -> None:
    async with CollectionsWorld() as world:
        opener = await world.create(history=3)
        gusts = await opener.collection()
        for number in range(9):
            await gusts.append(rows(("a", number)))
            assert (await gusts.info()).since == max(0, number + 1 - 3)
        for_hours = await world.create("hours", history="2h", times="ms")
        slow = await for_hours.collection("hours")
        for number in range(5):
            done = await slow.append(rows(("a", number)))
            await world.sleep(3_600)
        assert (await slow.info()).since == done.upper - 2 * 3_600_000


async def test_a_collection_has_so_many_bookmarks() -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        for number in range(256):
            await gusts.bookmark(f"b{number}")
        with pytest.raises(CollectionLimitError):
            await gusts.bookmark("one more")
        await gusts.bookmark("b7")
