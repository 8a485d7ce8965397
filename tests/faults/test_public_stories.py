"""Publicly known failures of similar stores, played here.

What may fail is told with each story. What must hold in all of them: the next owner, without a
local index, has every acknowledged byte and nothing else, and every invariant holds.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from siltstone.core.errors import SiltstoneError
from siltstone.testing.faults.faulty_chunk_storage import (
    Fate,
    FaultyChunkStorage,
    Plan,
    StorageCall,
)
from tests.support.container.container_world import (
    World,
    close_quietly,
    pattern,
    with_settings,
    world,
)
from tests.support.faults.zombie import PausingEnvironment, content

pytestmark = pytest.mark.virtual_time

QUIET = with_settings(
    chunk_bytes=1_500,
    flush_age_s=1e6,
    table_flush_age_s=1e6,
    checkpoint_age_s=1e6,
    garbage_interval_s=1e6,
    storage_deadline_s=1e6,
    storage_attempts=1,
    pack_bytes=1,
)


async def grown(made: World, **choices: object) -> bytes:
    """A container whose table log has several chunks; return the bytes of ``a``."""
    owner = await made.open()
    await owner.container.create("a")
    data = b""
    for number in range(8):
        await owner.container.append("a", pattern(number, 700))
        data += pattern(number, 700)
        await owner.container.flush()
    await owner.container.checkpoint()
    await owner.container.close()
    return data


async def check_next(made: World, data: bytes) -> None:
    """An owner that knows nothing has it all."""
    owner = await made.open(takeover=True, index="next")
    assert await content(owner, "a") == (0, data)
    await owner.container.flush()
    await made.check(owner, strict=False)
    await owner.container.close()


async def cut_by_an_overtaken_owner(made: World, number: int, *, after: bool) -> int:
    data = await grown(made)
    environment = PausingEnvironment(made, 10**9, after=after)
    older = await made.open(index="older", environment=environment)
    await older.container.append("a", pattern(20, 300))
    begin = environment.calls
    environment._number = begin + number

    async def checkpoints() -> None:
        """Each drops the head of the table log, and writes no chunk of it."""
        with suppress(SiltstoneError):
            for _ in range(3):
                await older.container.checkpoint()

    life = asyncio.create_task(checkpoints())
    reached = asyncio.create_task(environment.reached.wait())
    await asyncio.wait([life, reached], return_when=asyncio.FIRST_COMPLETED)
    calls = environment.calls - begin
    environment.stop_now()
    newer = await made.open(takeover=True, index="newer")
    await newer.container.append("a", pattern(21, 900))
    await newer.container.flush()
    environment.resume.set()
    await life
    reached.cancel()
    await close_quietly(older)
    await made.crash(newer, keep_index=False)
    await check_next(made, data + pattern(20, 300) + pattern(21, 900))
    return calls


def test_an_overtaken_owner_cuts_the_table_log_without_a_new_chunk() -> None:
    """pravega/pravega#6200: such a journal record was taken for one of the newer owner.

    Here a boot reads the journal of one epoch, and what is written into it later is never read.
    """
    with world(settings=QUIET) as made:
        count = int(made.run(cut_by_an_overtaken_owner(made, 10**8, after=False)))
    assert count > 20
    for number in range(1, count + 1, 3):
        for after in (False, True):
            with world(settings=QUIET) as made:
                made.run(cut_by_an_overtaken_owner(made, number, after=after))


# --- writes that were cut by a crash --------------------------------------------------------------


class Torn:
    """Tears one mutation of those whose names hold a word, and lets nothing through after it."""

    def __init__(self, word: str, number: int) -> None:
        self.word = word
        self.number = number
        self.count = 0
        self.dead = False

    def __call__(self, call: StorageCall) -> Fate:
        if self.dead:
            return Fate.LOST_CALL
        if call.operation in ("create", "write") and self.word in call.name:
            self.count += 1
            if self.count == self.number:
                self.dead = True
                return Fate.TORN
        return Fate.DONE


async def torn_life(made: World, plan: Torn) -> None:
    data = await grown(made)

    def hook(storage: FaultyChunkStorage) -> None:
        storage.plan = plan

    made.storage_hook = hook
    owner = None
    with suppress(SiltstoneError):
        owner = await made.open()
        for number in range(3):
            await owner.container.append("a", pattern(30 + number, 700))
            data += pattern(30 + number, 700)
            await owner.container.flush()
            await owner.container.checkpoint()
    made.storage_hook = lambda storage: None
    if owner is not None:
        await made.crash(owner, keep_index=False)
    await check_next(made, data)


@pytest.mark.parametrize(
    "word",
    [
        pytest.param("/tables-", id="pravega/pravega#6712"),
        pytest.param("/journal-", id="pravega/pravega#5330, a snapshot"),
        pytest.param("/index-", id="pravega/pravega#5330, an index"),
        pytest.param("data/", id="pravega/pravega#5330, a chunk"),
    ],
)
def test_a_write_is_cut_and_the_owner_dies(word: str) -> None:
    """A flush that was written in part was shown, or a boot failed at what was cut.

    Here a length moves with a durable commit only, a cut record is the end of its file, and what
    no row names is never read.
    """
    plan = Torn(word, 10**9)
    with world(settings=QUIET) as made:
        made.run(torn_life(made, plan))
    assert plan.count
    for number in range(1, plan.count + 1):
        with world(settings=QUIET) as made:
            made.run(torn_life(made, Torn(word, number)))


# --- holes in the numbers of files ----------------------------------------------------------------


def lost(count: int, fate: Fate) -> Plan:
    """Every journal write fails ``count`` times and is done then."""
    failed = 0

    def plan(call: StorageCall) -> Fate:
        nonlocal failed
        if call.operation not in ("create", "write") or "/journal-" not in call.name:
            return Fate.DONE
        failed = (failed + 1) % (count + 1)
        return fate if failed else Fate.DONE

    return plan


@pytest.mark.parametrize("fate", [Fate.LOST_CALL, Fate.LOST_REPLY, Fate.TORN])
async def test_numbers_of_journal_files_are_missing(fate: Fate) -> None:
    """pravega/pravega#6252: a boot that tried one number after the other stopped at a gap.

    Here files are listed, and an unknown write is repeated, the same bytes, under the next number.
    """
    async with world(settings=QUIET) as made:
        data = await grown(made)
        owner = await made.open()
        owner.storage.plan = lost(4, fate)
        for number in range(4):
            await owner.container.append("a", pattern(40 + number, 700))
            data += pattern(40 + number, 700)
            await owner.container.flush()
            await owner.container.checkpoint()
        await owner.container.append("a", pattern(50, 99))
        await owner.container.flush()
        await made.crash(owner, keep_index=False)
        await check_next(made, data + pattern(50, 99))
