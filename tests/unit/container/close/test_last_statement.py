"""What an owner states at its end: one small request if some bytes are in frames alone.

Long-term storage may be away or hang then. What must hold: the close succeeds and is not held up,
and what was acknowledged is there for the next owner.
"""

from __future__ import annotations

import random

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.container.container import Container
from siltstone.core.environment import Pool
from siltstone.core.errors import ChunkUnavailableError, LogError, LogLostError, Outcome
from siltstone.journal.journal import LAST_BATCH_S
from siltstone.journal.journal_state import EPOCH_END, read_journal
from siltstone.testing.faults.faulty_chunk_storage import Fate
from siltstone.tier1.memory.fenced_log import MemoryFencedLog
from tests.support import inside
from tests.support.container.container_world import copied, pattern, world
from tests.support.container.request_counts import WRITE_ONCE, counted_open

pytestmark = pytest.mark.virtual_time

PROFILES = pytest.mark.parametrize("profile", [WRITE_ONCE, Profile()], ids=["once", "append"])


async def _stated(container: Container) -> int:
    """The newest index that the journal states."""
    parts = inside.parts(container)
    found = await read_journal(parts.storage, parts.environment, 0, EPOCH_END)
    assert found is not None
    return found.newest_index


@PROFILES
async def test_an_end_after_unflushed_bytes_is_stated_by_one_request(profile: Profile) -> None:
    async with counted_open(profile) as (made, owner, requests):
        await owner.container.create("a")
        await owner.container.append("a", b"only in tier 1")
        requests.clear()
        await owner.container.close()
        assert requests.all.total() == 1
        again = await made.open()
        assert await again.container.read("a", 0, 99) == b"only in tier 1"
        await again.container.close()


@PROFILES
async def test_an_end_that_adds_nothing_asks_for_nothing(profile: Profile) -> None:
    async with counted_open(profile) as (made, owner, requests):
        await owner.container.create("a")
        await owner.container.append("a", b"flushed")
        await owner.container.flush()
        requests.clear()
        await owner.container.close()
        assert not requests.all["create"] + requests.all["write"]
        idle = await made.open()
        requests.clear()
        await idle.container.close()
        assert not requests.all["create"] + requests.all["write"]


async def test_an_older_log_is_refused_whatever_was_appended_after_it() -> None:
    async with world() as made:
        owner = await made.open()
        await owner.container.create("a")
        before = copied(made.shared_log)
        await owner.container.append("a", b"acknowledged")
        await owner.container.close()
        made.shared_log = before
        with pytest.raises(LogLostError, match="ends before an index that was acknowledged"):
            await made.open_reader()
        for _ in range(3):
            with pytest.raises(LogLostError):
                await made.open()


@PROFILES
@pytest.mark.parametrize("fate", [fate for fate in Fate if fate is not Fate.DONE])
async def test_a_close_does_not_need_long_term_storage(profile: Profile, fate: Fate) -> None:
    async with world(profile=profile) as made:
        owner = await made.open()
        await owner.container.create("a")
        await owner.container.append("a", pattern(1, 900))
        owner.storage.plan = lambda call: fate
        await owner.container.close()
        for _ in range(2):
            again = await made.open()
            assert await again.container.read("a", 0, 999) == pattern(1, 900)
            await again.container.close()


async def test_a_close_is_not_held_up_by_storage_that_hangs() -> None:
    silent_s = [0.0]

    def latency(pool: Pool, chance: random.Random) -> float:
        return silent_s[0] if pool.name.startswith("chunks") else 0.0

    async with world(latency=latency) as made:
        owner = await made.open()
        await owner.container.create("a")
        await owner.container.append("a", b"acknowledged")
        silent_s[0] = 10_000.0
        begun = made.environment.monotonic()
        await owner.container.close()
        assert made.environment.monotonic() - begun <= LAST_BATCH_S + 1


async def test_nothing_is_asked_of_storage_that_is_known_to_be_silent() -> None:
    async with world() as made:
        owner = await made.open()
        container = owner.container
        await container.create("a")
        await container.append("a", b"acknowledged")

        def away(operation: str, name: str) -> None:
            raise ChunkUnavailableError(
                "away", chunk=name, operation=operation, outcome=Outcome.UNKNOWN
            )

        owner.storage.before = away
        while not inside.parts(container).storage.silent:
            await made.environment.sleep(1.0)
        calls: list[str] = []
        owner.storage.before = lambda operation, name: calls.append(operation)
        await container.close()
        assert not calls


async def test_an_owner_whose_log_failed_states_what_it_acknowledged() -> None:
    async with world() as made:
        owner = await made.open()
        await owner.container.create("a")
        await owner.container.append("a", b"acknowledged")
        before = copied(made.shared_log)
        await owner.container.append("a", b"acknowledged too")
        inside.parts(owner.container).pipeline.fail(LogError("the disk failed"))
        await owner.container.close()
        made.shared_log = before
        with pytest.raises(LogLostError):
            await made.open()


async def test_an_owner_that_was_overtaken_states_nothing() -> None:
    async with world(profile=WRITE_ONCE) as made:
        owner = await made.open()
        await owner.container.create("a")
        await owner.container.append("a", b"acknowledged")
        newer = await made.open(takeover=True, index="newer")
        names = made.names("system/")
        with pytest.raises(LogError):
            await owner.container.append("a", b"fenced")
        await owner.container.close()
        assert made.names("system/") == names
        await newer.container.append("a", b"more")
        await newer.container.close()


async def test_the_next_owner_continues_after_the_statement() -> None:
    async with world() as made:
        whole = b""
        for number in range(4):
            owner = await made.open()
            await owner.container.create("a", exist_ok=True)
            whole += pattern(number, 50)
            await owner.container.append("a", pattern(number, 50))
            if number == 2:
                await owner.container.flush()
                await owner.container.append("a", b"more")
                whole += b"more"
            newest = inside.parts(owner.container).pipeline.replica.newest_index
            await owner.container.close(flush="never")
            reader = await made.open_reader()
            assert await reader.read("a", 0, 999) == whole
            assert not reader.stats().warnings
            await reader.close()
            log = MemoryFencedLog("world", 0, shared=made.shared_log).open_read()
            assert log.end() == newest + 2  # the end of the owner comes after it
        again = await made.open()
        assert await _stated(again.container) >= newest
        await made.check(again)
        await again.container.close()
