"""What a close settles: many owners that live for seconds, and closes that meet slow or no storage.

What must hold: every acknowledged byte is there, whatever was settled; what a flush wrote is named
by a row or by a garbage task, so no chunk is left over; tier 1 and the number of chunks do not grow
with the number of owners; and a close ends in bounded time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.container.close.settlement import (
    CLOSE_S,
    TAIL_BYTES_MAX,
    Unsettled,
    plan_settlement,
)
from siltstone.container.flush.checkpointer import REPLAY_BYTES
from siltstone.container.models.settings import CloseFlush
from siltstone.container.state.boot_state import OWNERS_MAX
from siltstone.core.constants import MIB
from siltstone.core.environment import Pool
from siltstone.core.errors import ChunkUnavailableError, FencedError
from siltstone.testing.faults.faulty_chunk_storage import FaultyChunkStorage
from tests.support.container.container_world import SETTINGS, Owner, World, pattern, world

pytestmark = pytest.mark.virtual_time

SHORT = SETTINGS


def unsettled(**changes: Any) -> Unsettled:
    nothing = {
        "tail_bytes": 0, "inherited": False, "flushing": False, "replay_bytes": 0, "owners": 0,
    }  # fmt: skip
    return Unsettled(**{**nothing, **changes})


@pytest.mark.parametrize(
    ("found", "flushes"),
    [
        ({}, False),
        ({"tail_bytes": 3}, False),
        ({"tail_bytes": 3, "inherited": True}, True),
        ({"tail_bytes": 3, "flushing": True}, True),
        ({"tail_bytes": TAIL_BYTES_MAX}, False),
        ({"tail_bytes": TAIL_BYTES_MAX + 1}, True),
        ({"inherited": True}, False),
    ],
)
def test_auto_flushes_what_is_inherited_or_on_its_way_or_much(
    found: dict[str, Any], flushes: bool
) -> None:
    assert plan_settlement("auto", unsettled(**found)).flush is flushes


def test_always_flushes_whatever_there_is() -> None:
    assert plan_settlement("always", unsettled(tail_bytes=1)).flush
    assert not plan_settlement("always", unsettled()).flush


def test_never_begins_nothing() -> None:
    much = unsettled(tail_bytes=10 * MIB, inherited=True, replay_bytes=10**9, owners=99)
    plan = plan_settlement("never", much)
    assert (plan.flush, plan.merge, plan.checkpoint) == (False, False, False)


def test_a_checkpoint_is_written_where_a_replay_would_be_long() -> None:
    assert not plan_settlement("auto", unsettled(replay_bytes=REPLAY_BYTES)).checkpoint
    assert plan_settlement("auto", unsettled(replay_bytes=REPLAY_BYTES + 1)).checkpoint


def test_chunks_are_merged_after_many_owners() -> None:
    assert not plan_settlement("auto", unsettled(owners=OWNERS_MAX - 1)).merge
    assert plan_settlement("auto", unsettled(owners=OWNERS_MAX)).merge


async def chunk_bytes(made: World) -> int:
    storage = made.new_storage()
    return sum(stat.length for stat in storage.list("data/"))


@contextmanager
def slow_storage(made: World, seconds: float) -> Iterator[None]:
    """Meanwhile each call to long-term storage takes this long."""
    before = made.environment.latency

    def latency(pool: Pool, chance: Random) -> float:
        return seconds if pool.name.startswith("chunks") else 0.0

    made.environment.latency = latency
    try:
        yield
    finally:
        made.environment.latency = before


async def everything_is_named(made: World, owner: Owner) -> None:
    """Rows name every chunk on storage, and no chunk that is not there."""
    await made.check(owner)


@pytest.mark.slow
@pytest.mark.parametrize("append", [True, False])
async def test_many_short_owners_leave_little(append: bool) -> None:
    async with world(profile=Profile(append=append)) as made:
        whole = b""
        for number in range(3 * OWNERS_MAX):
            owner = await made.open()
            await owner.container.create("a", exist_ok=True)
            whole += pattern(number, 100)
            await owner.container.append("a", pattern(number, 100))
            await owner.container.close()
        owner = await made.open()
        stats = owner.container.stats()
        assert stats.unflushed_bytes <= 100
        assert stats.log_end - stats.log_first < 12
        assert await owner.container.read("a", 0, len(whole) + 1) == whole
        live = {chunk.chunk for chunk in await owner.container.chunks("a")}
        assert len(live) < OWNERS_MAX
        await everything_is_named(made, owner)
        await owner.container.close(flush="always")
        garbage = [name for name in made.names("data/") if name not in live]
        assert len(garbage) <= len(live) + 2 * OWNERS_MAX


async def test_a_flush_that_runs_is_committed() -> None:
    async with world() as made:
        owner = await made.open()
        await owner.container.create("a")
        data = pattern(1, SETTINGS.flush_bytes or 8 * MIB)
        with slow_storage(made, 2.0):
            await owner.container.append("a", data)
            await made.environment.sleep(1.0)
            await owner.container.close(flush="never")
        assert await chunk_bytes(made) == len(data)
        again = await made.open()
        assert (await again.container.info("a")).flushed_length == len(data)
        await everything_is_named(made, again)
        await again.container.close()


@pytest.mark.slow
async def test_what_takes_too_long_stays_in_tier_1_and_leaves_no_chunk_without_a_name() -> None:
    async with world() as made:
        owner = await made.open()
        await owner.container.create("a")
        data = pattern(1, 2 * TAIL_BYTES_MAX)
        for part in range(0, len(data), 2_000):
            await owner.container.append("a", data[part : part + 2_000])
        with slow_storage(made, CLOSE_S * 0.7):
            begun = made.environment.monotonic()
            await owner.container.close()
            assert made.environment.monotonic() - begun < 3 * CLOSE_S
        again = await made.open()
        assert await again.container.read("a", 0, len(data) + 1) == data
        await everything_is_named(made, again)
        await again.container.close(flush="always")


@pytest.mark.parametrize("choice", ["auto", "never", "always"])
async def test_storage_that_refuses_is_told_by_always_alone(choice: CloseFlush) -> None:
    def refuse(storage: FaultyChunkStorage) -> None:
        def before(operation: str, name: str) -> None:
            if name.startswith("data/"):
                raise ChunkUnavailableError("it is away", chunk=name, operation=operation)

        storage.before = before

    async with world() as made:
        first = await made.open()
        await first.container.create("a")
        await first.container.append("a", b"bytes")
        await first.container.close(flush="never")
        made.storage_hook = refuse
        owner = await made.open()
        if choice == "always":
            with pytest.raises(ChunkUnavailableError, match="it is away"):
                await owner.container.close(flush=choice)
        else:
            await owner.container.close(flush=choice)
        made.storage_hook = lambda storage: None
        again = await made.open()
        assert await again.container.read("a", 0, 10) == b"bytes"
        await again.container.close(flush="always")
        assert await chunk_bytes(made) == 5


async def test_a_failed_owner_settles_nothing() -> None:
    async with world() as made:
        owner = await made.open()
        await owner.container.create("a")
        await owner.container.append("a", b"bytes")
        newer = await made.open(takeover=True, index="index-1")
        await asyncio.sleep(0)
        with pytest.raises(FencedError, match="not all was flushed"):
            await owner.container.close(flush="always")
        assert made.names("data/") == []
        assert await newer.container.read("a", 0, 10) == b"bytes"
        await newer.container.close()
