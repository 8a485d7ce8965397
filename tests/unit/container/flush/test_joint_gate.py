"""Joint commits are held back for a moment while the table log is flushed, and for no longer.

The moment is that of the last flush of their bytes. What happens to it: it fails, its caller is
cancelled, storage does not answer or has no room, the container closes or is fenced. What must
hold: commits go on or get an answer, and the table log follows as soon as it can.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.container.flush.whole_cut import HELD_S_MAX
from siltstone.container.models.segments import Append, Put
from siltstone.core.environment import Pool
from siltstone.core.errors import ChunkStorageFullError, ClosedError, FencedError, Outcome
from siltstone.testing.faults.faulty_chunk_storage import Fate, all_done
from tests.support import inside
from tests.support.container.container_world import (
    Owner,
    World,
    close_quietly,
    with_settings,
    world,
)
from tests.support.container.whole_commits import commit, keep_committing, prepare, whole_commits

pytestmark = pytest.mark.virtual_time

QUIET = with_settings(
    flush_age_s=1e6,
    flush_bytes=1 << 26,
    chunk_bytes=1 << 20,
    table_flush_age_s=1e6,
    checkpoint_age_s=1e6,
    garbage_interval_s=1e6,
)
CALL_S = 0.4
"""Of a call to storage; a frame takes a tenth of it."""


class Pace:
    """How long calls take.

    Attributes:
        chunks_s: those to long-term storage.
    """

    def __init__(self) -> None:
        self.chunks_s = CALL_S

    def __call__(self, pool: Pool, chance: object) -> float:
        return self.chunks_s if pool.name.startswith("chunks") else CALL_S / 10


@asynccontextmanager
async def busy(clients: int = 3) -> AsyncIterator[tuple[World, Owner, Pace]]:
    """An owner that clients commit to without a pause, on storage where each flush is a chunk."""
    pace = Pace()
    async with world(1, profile=Profile(append=False), settings=QUIET, latency=pace) as made:
        owner = await made.open()
        await prepare(owner.container)
        await owner.container.flush()
        tasks = [
            asyncio.ensure_future(keep_committing(owner.container, client, clients, 100, pause_s=0))
            for client in range(clients)
        ]
        await made.environment.sleep(4)
        yield made, owner, pace
        await close_quietly(owner)
        await asyncio.wait(tasks, timeout=100)
        assert all(task.done() for task in tasks), "who called got an answer"


async def until_held(made: World, owner: Owner) -> None:
    """Wait until joint commits are held back."""
    gate = inside.parts(owner.container).pipeline.joint_gate
    async with asyncio.timeout(10 * CALL_S):
        while gate.is_open:
            await made.environment.sleep(0.001)


async def check_goes_on(owner: Owner, within_s: float) -> None:
    """Joint commits are acknowledged."""
    async with asyncio.timeout(within_s):
        await commit(owner.container, 1_000_000, 10)


async def test_the_table_log_is_flushed_while_commits_never_pause() -> None:
    async with busy() as (_, owner, _):
        async with asyncio.timeout(10 * CALL_S):
            await owner.container.flush_tables()
        await check_is_flushed(owner)


async def check_is_flushed(owner: Owner) -> None:
    """The table log on long-term storage has most of what is there."""
    replica = inside.parts(owner.container).pipeline.replica
    assert replica.tables.applied_version - replica.table_flushed < replica.table_flushed


async def test_a_failed_flush_lets_commits_go_on() -> None:
    async with busy() as (made, owner, _):
        flush = asyncio.ensure_future(owner.container.flush_tables())
        await until_held(made, owner)
        owner.storage.plan = lambda call: Fate.REFUSED if call.operation == "create" else Fate.DONE
        (error,) = await asyncio.gather(flush, return_exceptions=True)
        assert isinstance(error, Exception)
        await check_goes_on(owner, CALL_S)
        owner.storage.plan = all_done
        await owner.container.flush_tables()
        await check_is_flushed(owner)


async def test_a_cancelled_flush_lets_commits_go_on() -> None:
    async with busy() as (made, owner, _):
        flush = asyncio.ensure_future(owner.container.flush_tables())
        await until_held(made, owner)
        flush.cancel()
        await check_goes_on(owner, CALL_S)
        await asyncio.wait([flush])
        assert flush.cancelled()


async def test_why_a_flush_failed_that_is_just_being_cancelled_is_no_noise() -> None:
    async with busy() as (made, owner, _):
        unheard: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, facts: unheard.append(facts))
        flush = asyncio.ensure_future(owner.container.flush_tables())
        await until_held(made, owner)
        (work,) = (task for task in asyncio.all_tasks() if "WholeCuts._flush_rest" in repr(task))
        work.add_done_callback(lambda _, cancel=flush.cancel: cancel())  # type: ignore[misc]
        owner.storage.plan = lambda call: Fate.REFUSED if call.operation == "create" else Fate.DONE
        await asyncio.wait([flush])
        assert flush.cancelled()
        assert work.done()
        del flush, work
        gc.collect()
        assert unheard == []
        owner.storage.plan = all_done


async def test_commits_go_on_while_storage_does_not_answer() -> None:
    async with busy() as (made, owner, pace):
        flush = asyncio.ensure_future(owner.container.flush_tables())
        await until_held(made, owner)
        pace.chunks_s = 30.0
        await check_goes_on(owner, HELD_S_MAX + 1)
        assert not flush.done()
        pace.chunks_s = CALL_S
        await flush
        await check_is_flushed(owner)


async def test_slow_chunks_do_not_keep_the_table_log_back_for_ever() -> None:
    async with busy() as (_, owner, pace):
        pace.chunks_s = HELD_S_MAX / 2
        async with asyncio.timeout(200):
            await owner.container.flush_tables()
        await check_is_flushed(owner)


async def test_who_is_held_back_is_told_of_a_newer_owner() -> None:
    async with busy() as (made, owner, _):
        flush = asyncio.ensure_future(owner.container.flush_tables())
        await until_held(made, owner)
        newer = await made.open(takeover=True, index="newer")
        await asyncio.wait([flush], timeout=HELD_S_MAX)
        with pytest.raises((FencedError, ClosedError)):
            await commit(owner.container, 1_000_000, 10)
        await whole_commits(newer.container)
        await close_quietly(newer)


async def test_who_is_held_back_gets_an_answer_while_the_container_closes() -> None:
    async with busy() as (made, owner, pace):
        flush = asyncio.ensure_future(owner.container.flush_tables())
        await until_held(made, owner)
        pace.chunks_s = 5.0
        waiting = asyncio.ensure_future(commit(owner.container, 1_000_000, 10))
        await owner.container.close(flush="never")
        async with asyncio.timeout(HELD_S_MAX):
            await asyncio.wait([waiting, flush])


async def test_a_deletion_reaches_storage_that_has_no_room_for_bytes() -> None:
    def full_for_data(operation: str, name: str) -> None:
        if operation == "create" and name.startswith("data/"):
            raise ChunkStorageFullError(
                "no room", chunk=name, operation=operation, outcome=Outcome.NOT_APPLIED
            )

    def is_there() -> bool:
        return any("/large/" in name for name in made.names("data/"))

    async with busy(clients=1) as (made, owner, _):
        await owner.container.create("large")
        await owner.container.append("large", bytes(9_000))
        await owner.container.flush("large")
        assert is_there()
        owner.storage.before = full_for_data
        await owner.container.delete("large")
        for _ in range(3):  # its rows, its chunk, and one more
            await made.environment.sleep(made.settings.garbage_delay_s + 1)
            await owner.container.garbage.run()
        assert not is_there()
        owner.storage.before = lambda operation, name: None


async def test_commits_of_an_older_owner_are_whole_after_a_flush_of_the_next() -> None:
    async with world(settings=QUIET) as made:
        owner = await made.open()
        await prepare(owner.container)
        await commit(owner.container, 1, 100)
        await made.crash(owner)
        again = await made.open()
        await again.container.flush_tables()
        for name in ("a", "b"):
            info = await again.container.info(name)
            assert info.flushed_length == info.length, f"{name} is as far as its rows"
        await again.container.close()


async def test_a_small_concat_is_not_without_its_bytes() -> None:
    async with world(settings=QUIET) as made:
        owner = await made.open()
        for name, data in (("target", b"1"), ("source", b"2")):
            await owner.container.create(name)
            await owner.container.append(name, data)
        await owner.container.seal("source")
        await owner.container.flush()
        await owner.container.concat("target", "source")
        await owner.container.flush_tables()
        assert (await owner.container.info("target")).flushed_length == 2
        await owner.container.close()


async def test_bytes_of_no_joint_commit_stay_where_they_are() -> None:
    async with world(settings=QUIET) as made:
        owner = await made.open()
        await prepare(owner.container)
        await commit(owner.container, 1, 100)  # to others
        await owner.container.append("a", b"bytes")
        await owner.container.commit([Put("t", b"k", b"v")])
        await owner.container.commit([Append("a", b"bytes")])
        await owner.container.flush_tables()
        assert (await owner.container.info("a")).flushed_length == 0
        await owner.container.close()
